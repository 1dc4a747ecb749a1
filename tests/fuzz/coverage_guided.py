"""The engine where atheris is installed: libFuzzer, guided by the code that inputs reach.

A process of its own for each target, because libFuzzer never returns: ``python -m tests.fuzz.coverage_guided TARGET
FLAG...``, where the flags are libFuzzer's.
"""

from __future__ import annotations

import dis
import operator
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

INSTRUMENTED = ("carico", "workloads", "testbed", "h2", "hpack", "hyperframe")
"""The packages whose code guides."""

_OPERATORS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}


def sparing_arrays(attempt: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return a function that gives inputs to another one, and keeps arrays from the comparisons that atheris traces.

    atheris 3.0.0 keeps whatever such a comparison returns for ever. True and False exist anyway, but every comparison
    of arrays returns another array, so the process would grow as if the target leaked. No array's comparison is worth
    tracing: what guides are numbers and strings.
    """
    spared = False

    def attempted(data: bytes) -> None:
        nonlocal spared
        if not spared:  # not earlier: `atheris.Fuzz` first replaces the function that traces
            _spare_arrays()
            spared = True
        attempt(data)

    return attempted


def _spare_arrays() -> None:
    import atheris
    from atheris.version_dependent import CMP_OP_SHIFT_AMOUNT

    traced = atheris._trace_cmp
    by_number = [getattr(operator, _OPERATORS[sign]) for sign in dis.cmp_op]

    def compared(left: Any, right: Any, number: int, place: int, constant: bool) -> Any:
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            return by_number[number >> CMP_OP_SHIFT_AMOUNT](left, right)
        return traced(left, right, number, place, constant)

    atheris._trace_cmp = compared


def main(name: str, flags: list[str]) -> None:
    """Fuzz a target until the time is over, or something is found."""
    import atheris  # only here: the other engine is for machines without it, and doctest imports this module

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.targets import target_named

        target = target_named(name)
    from tests.fuzz.mutation import changed
    from tests.fuzz.target import Guard

    guard = Guard(target)

    def mutated(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        result = changed(data, target.form, rng) if rng.random() < 0.7 else None
        return result if result is not None and len(result) <= longest else atheris.Mutate(data, longest)

    mutator = {} if target.form == "bytes" else {"custom_mutator": mutated}
    atheris.Setup([sys.argv[0], *flags], sparing_arrays(guard.attempt), **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
