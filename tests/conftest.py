"""Settings of the suite: one thread a worker, no network, the same examples in every run."""

from __future__ import annotations

import os

# Before torch is imported: two workers share two cores, and a fixed thread count keeps sums bit-identical.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["RWF_FEATURE_CACHE"] = "off"  # nothing of a test stays in the user's cache
os.environ["COLUMNS"] = "80"  # what is printed is looked at as on a narrow terminal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
