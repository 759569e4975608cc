"""The command `rwf demo`."""

from __future__ import annotations

from dataclasses import dataclass

from rwf.run.demo_options import DemoOptions


@dataclass(frozen=True)
class Demo(DemoOptions):
    """a first look: rwf beside three others, with a page"""

    usage = "demo"

    def __call__(self) -> int:
        from rwf.report.demo import write_demo
        from rwf.run.demo import learn_all

        print(write_demo(self.out, learn_all(self)))
        return 0
