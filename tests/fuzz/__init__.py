"""Fuzzing: every parser and port of the three packages is given inputs that nobody has thought of.

``python -m tests.fuzz`` runs the targets; CONTRIBUTING.md says how. `targets` has what is fuzzed, `target` what counts
as a finding, `coverage_guided` and `random_inputs` the two engines, and ``corpus/`` the inputs that are kept.
"""
