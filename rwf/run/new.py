"""The template that `rwf new FILE.py` writes: a method that runs, and passes `rwf check`, as it stands."""

from __future__ import annotations

from pathlib import Path

from rwf.errors import UserError
from rwf.files import write_text

TEMPLATE = '''"""{name}: a linear head on frozen features whose scores are kept small. Change it into your method.

Paper: its title and authors. Official code: its repository and licence. What is different here: ...
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rwf import GradientLearner
from rwf.data.batch import Batch


@dataclass(kw_only=True, eq=False, repr=False)
class {name}(GradientLearner):
    """Shown by `rwf run {file}:{name} --help`."""

    # Every field is an option of the command line, with the text under it as its help. The base class brings
    # lr, mask, head and others; give them here again to change their defaults.
    shrink: float = 0.01
    """Weight of the term that keeps scores small."""

    def setup(self) -> None:
        """Make what is trained besides the head, and fill the sockets of the blocks (``self.plug``)."""

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        """The loss of one batch; ``rows`` are its labels as columns of the scores."""
        x = self.cast(batch.view())  # B 3 P P
        scores = self.classify_features(self.features(x), rows)  # B d -> B rows
        self.answered = scores.detach()  # what predict would have said, for the online accuracy
        return self.cross_entropy(scores, rows) + self.shrink * scores.square().mean()
'''


def write_template(file: Path) -> str:
    """Writes the template; says how to go on."""
    file = file.expanduser()
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise UserError(f"{file} is no name for a Python file: give something like my_method.py.")
    if file.exists():
        raise UserError(f"{file} is already there: give another name.")
    name = "".join(word[:1].upper() + word[1:] for word in file.stem.split("_"))
    write_text(file, TEMPLATE.replace("{name}", name).replace("{file}", file.name))
    spec = f"{file}:{name}"
    return f"{file} holds the method {name}.\ntry it:   rwf check {spec}\nrun it:   rwf run {spec} --benchmark B"
