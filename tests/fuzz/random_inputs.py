"""The engine where atheris is not installed: Hypothesis changes the seeds and the kept inputs, guided by nothing.

A process of its own for each target, as the other engine: ``python -m tests.fuzz.random_inputs TARGET SECONDS INPUTS
FINDINGS``, where the last two are folders.
"""

from __future__ import annotations

import hashlib
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.corpus import files_in
from tests.fuzz.mutation import changed, damaged
from tests.fuzz.target import Guard, Target, TooMuch
from tests.fuzz.targets import target_named

_ROUND = 500
"""Examples of a round; Hypothesis remembers the examples of a round."""
HANG_S = 60
"""How long an input may take. Other load on the machine counts, too, so the limit of CPU time is the strict one."""


def inputs_like(known: list[bytes], target: Target) -> st.SearchStrategy[bytes]:
    """Return a strategy for inputs that resemble known ones."""

    def mutated(data: bytes, number: int) -> bytes:
        rng = random.Random(number)
        for _ in range(rng.choice((1, 1, 2, 4))):
            result = changed(data, target.form, rng) if target.form != "bytes" and rng.random() < 0.7 else None
            data = damaged(data, rng) if result is None else result
        return data[: target.longest]

    return st.binary(max_size=64) | st.builds(mutated, st.sampled_from(known), st.integers(0, 2**32))


def main(name: str, seconds: float, inputs: Path, findings: Path, number: int) -> int:
    """Fuzz a target until the time is over, or something is found; return an exit code.

    Rounds have the seeds `number`, `number` + 1 and so on.
    """
    target = target_named(name)
    guard, known = Guard(target), files_in(inputs) or [b""]
    ends = time.monotonic() + seconds
    tried, last = 0, b""
    signal.signal(signal.SIGALRM, _hangs)
    print(f"#{len(known)} INITED", file=sys.stderr)
    while time.monotonic() < ends:

        @seed(number)
        @settings(
            max_examples=_ROUND,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )
        @given(inputs_like(known, target))
        def attempt(data: bytes) -> None:
            nonlocal tried, last
            if time.monotonic() >= ends:
                return
            tried += 1
            signal.alarm(HANG_S)
            try:
                guard.attempt(data)
            except BaseException:
                last = data
                raise
            finally:
                signal.alarm(0)

        try:
            attempt()
        except BaseException:
            (findings / f"crash-{hashlib.sha1(last).hexdigest()}").write_bytes(last)
            print(f"#{tried} FOUND", file=sys.stderr)
            raise
        number += 1
    print(f"#{tried} DONE corp: {len(known)}", file=sys.stderr)
    return 0


def _hangs(signum: int, frame: FrameType | None) -> None:
    raise TooMuch(f"an input took more than {HANG_S} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5])))
