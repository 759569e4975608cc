"""Every registered method keeps every promise; a method gets these tests for being registered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.registry import METHODS
from rwf.run.check import Subject, resumes_exactly
from rwf.run.conformance import CHECKS


@pytest.mark.parametrize("promise", CHECKS)
@pytest.mark.parametrize("method", METHODS)
def test_promise(method, promise):
    CHECKS[promise](Subject(method))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=5)
@given(step=st.integers(0, 20))
def test_resumes_exactly_from_any_step(method, step):
    resumes_exactly(Subject(method), step)
