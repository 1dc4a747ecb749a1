"""What all unit tests share: Hypothesis tries the same examples on every run, and never fails on a slow machine."""

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("deterministic")
