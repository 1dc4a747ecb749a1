"""The engine where atheris is installed: libFuzzer, guided by the code that inputs reach.

A process of its own for each target, because libFuzzer never returns: ``python -m tests.fuzz.coverage_guided TARGET
FLAG...``, where the flags are libFuzzer's.
"""

from __future__ import annotations

import random
import sys

INSTRUMENTED = ("carico", "workloads", "testbed", "h2", "hpack", "hyperframe")
"""The packages whose code guides."""


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
    atheris.Setup([sys.argv[0], *flags], guard.attempt, **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
