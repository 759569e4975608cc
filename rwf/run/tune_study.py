"""The study of a search, kept by Optuna in a file or a database: which settings were tried, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import Trial, TrialState, create_trial
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from rwf.errors import UserError
from rwf.run.tune_space import Space

FILE = "study.db"
ROW = "row"


@dataclass(frozen=True)
class Asked:
    """A setting that is being tried; ``trial`` where Optuna proposed it."""

    setting: dict[str, Any]
    trial: Trial | None = None


class Study:
    """Gives settings that have not been tried, and keeps the row of each that was. One process at a time."""

    def __init__(self, name: str, space: Space, folder: Path, storage: str | None, seed: int) -> None:
        self.space, self.seed, self.failed_now = space, seed, 0
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        url = storage or f"sqlite:///{(folder / FILE).absolute()}"
        try:
            self.place = FILE if storage is None else make_url(url).render_as_string(hide_password=True)
            self.storage = optuna.storages.RDBStorage(url)
            self.optuna = optuna.create_study(
                storage=self.storage, study_name=name, direction="maximize", load_if_exists=True
            )
        except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError) as error:
            said = str(error).splitlines()[0].rstrip(".")
            where = folder / FILE if storage is None else "the database of --storage"
            raise UserError(f"the study cannot be kept in {where} ({said}): give another --storage.") from error

    def __enter__(self) -> Self:
        """What a killed process left half done is given up; the samplers will propose the same again."""
        for trial in self.optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self.optuna.tell(trial.number, state=TrialState.FAIL)
        return self

    def __exit__(self, *_error: Any) -> None:
        self.storage.remove_session()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each setting, the last one where it was tried again."""
        out: dict[str, dict[str, Any]] = {}
        for trial in self.optuna.get_trials(deepcopy=False):
            if ROW in trial.user_attrs:
                out[repr(sorted(trial.params.items()))] = dict(trial.user_attrs[ROW])
        return list(out.values())

    def begin(self, most: int) -> list[Asked]:
        """Up to so many settings that are still to be tried."""
        rows = self.rows()
        if self.space.sampler == "grid":
            done = [row["options"] for row in rows if "error" not in row]
            left = [setting for setting in self.space.grid() if setting not in done]
            return [Asked(setting) for setting in left[self.failed_now :][:most]]
        self.optuna.sampler = self.space.sampler_after(len(rows), self.seed)
        drawn = {name: self.space.distribution(name) for name in self.space.names}
        trials = [self.optuna.ask(drawn) for _ in range(min(most, self.space.trials - len(rows)))]
        return [Asked(trial.params, trial) for trial in trials]

    def end(self, asked: Asked, row: dict[str, Any]) -> None:
        """What came of a setting: its row, with a mean accuracy, or with an error."""
        failed = "error" in row
        if asked.trial is not None:
            asked.trial.set_user_attr(ROW, row)
            self.optuna.tell(asked.trial, row.get("mean"), TrialState.FAIL if failed else None)
            return
        self.failed_now += failed
        distributions = {name: self.space.distribution(name) for name in asked.setting}
        state = TrialState.FAIL if failed else TrialState.COMPLETE
        self.optuna.add_trial(
            create_trial(
                state=state,
                value=row.get("mean"),
                params=asked.setting,
                distributions=distributions,
                user_attrs={ROW: row},
            )
        )
