"""Student's distribution, for intervals over a few seeds."""

from __future__ import annotations

import math
from functools import cache


def t_probability(t: float, freedom: int) -> float:
    """P(T <= t) of Student's distribution, by its finite sum over whole degrees of freedom."""
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = total = cosine if odd else 1.0
    for i in range(1, (freedom - 1) // 2 if odd else freedom // 2):
        term *= cosine**2 * (2 * i / (2 * i + 1) if odd else (2 * i - 1) / (2 * i))
        total += term
    if odd:
        inside = (angle + (sine * total if freedom > 1 else 0.0)) * 2 / math.pi
    else:
        inside = sine * total
    return 0.5 + inside / 2


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """The number below which Student's variable lies with this probability."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability of {probability}")
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
