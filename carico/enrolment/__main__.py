"""Keeps a node's certificate valid: runs `carico enrol` at once, and again whenever the certificate is due.

``python -m carico.enrolment OPTIONS`` passes its options on, runs until SIGTERM, and exits with code 0. It sleeps for
days on every node, so it uses only the standard library: `carico enrol`, with the clients for keys and for the
Kubernetes API, takes five times the memory, but for a second only.
"""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from carico.backoff import Backoff
from carico.logs import set_up_logs

_log = logging.getLogger("carico.enrolment")

_AGAIN = Backoff(first_s=2.0, longest_s=300.0)
_LEAST_S = 60.0
"""Between two certificates: a clock that is wrong must not cause a flood of requests."""
_LOOK_EVERY_S = 600.0
"""A machine that was asleep notices within this time that a certificate is due."""
_MOST_LETTERS = 2000


def keep(command: Sequence[str], rng: random.Random, sleep: Callable[[float], None] = time.sleep) -> None:
    """Run a command whenever it is due, and sooner after it has failed; never returns.

    Parameters
    ----------
    command : sequence of str
        Prints when it wants to run again, as the last word of its output, in the format of ISO 8601.
    rng : random.Random
        Spreads attempts.
    sleep : callable, optional
        Waits for some seconds.
    """
    failures = 0
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own
        due = _due(done.stdout) if done.returncode == 0 else None
        if due is None:
            failures += 1
            wait_s = _AGAIN.wait_s(failures, rng)
            why = (done.stderr.strip() or f"exit code {done.returncode}")[-_MOST_LETTERS:]
            _log.warning("no new certificate: %s", why, extra={"failures": failures, "again_in_s": round(wait_s)})
            sleep(wait_s)
            continue
        failures = 0
        _log.info("%s", done.stdout.strip())
        sleep(_LEAST_S)
        while (left_s := (due - datetime.now(UTC)).total_seconds()) > 0:
            sleep(min(left_s, _LOOK_EVERY_S))


def _due(output: str) -> datetime | None:
    try:
        due = datetime.fromisoformat(output.split()[-1])
    except (IndexError, ValueError):
        return None
    return due if due.tzinfo is not None else None


def main() -> None:
    """Keep a certificate until SIGTERM or Ctrl-C."""
    set_up_logs("json")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # which ends the child, too
    keep([sys.executable, "-m", "carico", "enrol", *sys.argv[1:]], random.Random())


if __name__ == "__main__":
    main()
