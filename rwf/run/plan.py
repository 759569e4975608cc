"""What is asked of a method and when: evaluations, anytime points, and which test picture belongs to which task."""

from __future__ import annotations

import numpy as np

from rwf.data.stream import Stream
from rwf.errors import UserError
from rwf.metrics import learned_at


class Plan:
    """A function of the stream alone. Points in time are numbers of batches handed out."""

    def __init__(self, stream: Stream, anytime_per_task: int) -> None:
        if anytime_per_task < 0:
            raise UserError(f"anytime is {anytime_per_task}; give 0 (never) or a number of points a task.")
        self.evaluations = set(stream.evaluations)
        self.anytime: set[int] = set()
        before = 0
        for end in stream.evaluations:
            for i in range(1, anytime_per_task + 1):
                self.anytime.add(before + max(1, round((end - before) * i / anytime_per_task)))
            before = end
        catalog = stream.catalog
        self.tasks = len(stream.tasks)
        self.test_labels = np.asarray(catalog.test.labels)
        task_of = {name: task for task, names in enumerate(stream.tasks) for name in names}
        task_of_class = np.array([task_of.get(name, -1) for name in catalog.classes])
        self.test_tasks = task_of_class[self.test_labels]
        groups = task_of_class[catalog.train.labels[stream.plan.ids]]
        ends = stream.plan.starts[sorted(self.evaluations)]
        self.learned = None if stream.plan.boundaries else learned_at(groups, ends, self.tasks)
        """Without tasks: the evaluation by which each group of classes was learned, counted from 0."""
