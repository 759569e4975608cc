"""The paper's experiments, and those it lacks: each a function that returns frozen run configurations."""

from __future__ import annotations

from rwf.registry import Entry

EXPERIMENTS: dict[str, Entry] = {
    "table1": Entry("rwf.experiments.tables:table1", "every method on one stream", "Table 1"),
    "few-shot": Entry("rwf.experiments.tables:few_shot", "with 100, 70, 50 and 20 % of the pictures", "Table 2"),
    "tasks": Entry("rwf.experiments.tables:tasks", "the same classes in 5, 10, 20 and 40 tasks", "Figure 2"),
    "depth": Entry("rwf.experiments.tables:depth", "routing in the first or last k blocks", "Table 3"),
    "parameters": Entry("rwf.experiments.tables:parameters", "trained numbers beside accuracy", "Table 4"),
    "prompts": Entry("rwf.experiments.routing:prompts", "number of prompts, what they hold, and their weight alone"),
    "beta": Entry("rwf.experiments.routing:beta", "inverse temperature of the retrieval"),
    "steps": Entry("rwf.experiments.routing:steps", "one, two and three retrievals"),
    "projections": Entry("rwf.experiments.routing:projections", "W_K and W_V: which, and frozen or trained"),
    "masks": Entry("rwf.experiments.controls:masks", "which classes compete in the loss"),
    "ladder": Entry("rwf.experiments.controls:ladder", "from a linear probe to RwF, one thing added at a time"),
    "switch": Entry("rwf.experiments.controls:switch", "accuracy on the first batches after a change of task"),
    "drift": Entry(
        "rwf.experiments.routing:drift", "how routing of fixed pictures moves, and whether forgetting goes with it"
    ),
    "resolution": Entry("rwf.experiments.controls:resolution", "the same stream with fewer details"),
    "fine-grained": Entry("rwf.experiments.routing:fine_grained", "how far apart the routing of two classes is"),
}
"""By name; ``target`` is imported when the experiment is asked for."""
