"""The paper's claims held against its own tables; `python -m rwf.report.claims` prints them (docs/paper-notes.md)."""

from __future__ import annotations

from rwf.report.published import Place, published
from rwf.report.sheet import Head, Line, Sheet


def figure(method: str, benchmark: str, key: str = "final_accuracy", table: str = "Table 1") -> float:
    """One number of the paper."""
    return next(
        place.figures[key].mean
        for place in published()
        if (place.table, place.method, place.benchmark) == (table, method, benchmark) and key in place.figures
    )


def benchmarks() -> list[str]:
    """Those of Table 1."""
    return list(dict.fromkeys(place.benchmark for place in published() if place.table == "Table 1"))


def forgets_less(benchmark: str) -> list[str]:
    """Methods that forget less than RwF, the least first."""
    own = figure("rwf", benchmark, "forgetting")
    found = {p.method: p.figures["forgetting"].mean for p in _rows(benchmark) if "forgetting" in p.figures}
    return sorted((name for name, value in found.items() if value < own), key=lambda name: found[name])


def below_finetune(benchmark: str) -> list[str]:
    """Methods that end below what the paper calls the lower bound."""
    bound = figure("finetune", benchmark)
    return [p.method for p in _rows(benchmark) if p.figures["final_accuracy"].mean < bound]


def impossible(tasks: int = 10) -> list[tuple[str, str, float]]:
    """Rows whose accuracy and forgetting cannot both be means over tasks, and the highest accuracy they would need.

    On average over the first T - 1 tasks the best accuracy is the final one plus the forgetting. With the last task's
    final accuracy at its most, 100, that is (T A - 100) / (T - 1) + F, and it cannot exceed 100.
    """
    found = []
    for benchmark in benchmarks():
        for place in _rows(benchmark):
            if "forgetting" in place.figures:
                a, f = place.figures["final_accuracy"].mean, place.figures["forgetting"].mean
                best = (tasks * a - 100) / (tasks - 1) + f
                if best > 100:
                    found.append((place.method, benchmark, best))
    return found


def drops(fraction: float = 0.2) -> dict[str, tuple[float, float]]:
    """Points and percent that each method of Table 2 loses with so few pictures, the smallest loss first."""
    table = {
        (p.method, p.train_fraction): p.figures["final_accuracy"].mean for p in published() if p.table == "Table 2"
    }
    lost = {m: table[m, 1.0] - table[m, fraction] for m, part in table if part == 1.0}
    order = sorted(lost, key=lambda method: lost[method])
    return {m: (lost[m], 100 * lost[m] / table[m, 1.0]) for m in order}


def cheaper() -> list[str]:
    """Methods of Table 4 that train less than RwF, the least first."""
    found = {p.method: p.figures["trainable_percent"].mean for p in published() if p.table == "Table 4"}
    return sorted((m for m, value in found.items() if value < found["rwf"]), key=lambda m: found[m])


def _rows(benchmark: str) -> list[Place]:
    return [p for p in published() if p.table == "Table 1" and p.benchmark == benchmark]


def sheets() -> list[Sheet]:
    """The figures behind docs/paper-notes.md."""
    order = [
        Line(
            (
                benchmark,
                f"{figure('rwf', benchmark, 'forgetting'):.2f}",
                ", ".join(f"{m} {figure(m, benchmark, 'forgetting'):.2f}" for m in forgets_less(benchmark)) or "nobody",
                ", ".join(f"{m} {figure(m, benchmark):.2f}" for m in below_finetune(benchmark)) or "nobody",
            )
        )
        for benchmark in benchmarks()
    ]
    few = [Line((m, f"{points:.2f}", f"{share:.1f}")) for m, (points, share) in drops().items()]
    trained = figure("rwf", "", "trainable_percent", "Table 4")
    cost = [Line((m, f"{trained / figure(m, '', 'trainable_percent', 'Table 4'):.2f}")) for m in cheaper()]
    wrong = [Line((m, benchmark, f"{best:.2f}")) for m, benchmark, best in impossible()]
    return [
        Sheet(
            "Forgetting, Table 1",
            (Head("benchmark"), Head("rwf"), Head("forget less", words=True), Head("end below Finetune", words=True)),
            order,
        ),
        Sheet("From 100 % to 20 % of the pictures, Table 2", (Head("method"), Head("points"), Head("percent")), few),
        Sheet("Trained numbers of RwF, Table 4", (Head("in units of"), Head("times")), cost),
        Sheet("Accuracy and forgetting that exclude each other", (Head("method"), Head("on"), Head("needs")), wrong),
    ]


if __name__ == "__main__":
    print("\n\n".join(f"### {sheet.title}\n\n{sheet.markdown()}" for sheet in sheets()))
