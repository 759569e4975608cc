"""Student's distribution against printed tables, closed forms and the integral of its density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.student import t_probability, t_quantile


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (30, 2.0423), (1001, 1.9623)],
)
def test_quantiles_are_those_of_the_printed_tables(freedom: int, expected: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=6e-5)
    assert t_quantile(0.025, freedom) == pytest.approx(-expected, abs=6e-5)


@given(st.floats(-30, 30), st.integers(1, 6))
def test_probability_has_the_closed_forms_of_few_degrees_and_its_symmetry(t: float, freedom: int) -> None:
    closed = {1: 0.5 + math.atan(t) / math.pi, 2: 0.5 + t / (2 * math.sqrt(2 + t * t))}
    if freedom in closed:
        assert t_probability(t, freedom) == pytest.approx(closed[freedom], abs=1e-12)
    assert t_probability(t, freedom) + t_probability(-t, freedom) == pytest.approx(1)
    assert t_quantile(t_probability(t, freedom), freedom) == pytest.approx(t, abs=1e-5, rel=1e-5)


def test_the_probability_is_the_integral_of_the_density() -> None:
    x = np.linspace(0, 1.7, 20001)
    for freedom in (3, 4, 7, 8):
        scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
        density = scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
        assert t_probability(1.7, freedom) == pytest.approx(0.5 + np.trapezoid(density, x), abs=1e-9)
