"""What a target is, and what counts as a finding.

A target reads bytes as one parser or port of the product does. For any bytes, reading returns a value or raises one of
the documented errors; what must hold of every value, whatever the bytes, is checked afterwards. Anything else is a
finding: another exception, an assertion that fails, CPU time or memory beyond the limits.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MOST_CPU_S = 5.0
"""The most CPU time that an input may take. Inputs have a few kilobytes: hardly any takes more than milliseconds, but
YAML that nests thousands of lists takes PyYAML more than a second before it is refused."""
MOST_GROWTH_KIB = 64 << 10
"""The most by which the process's peak of memory may grow with an input, or with all inputs together."""


class TooMuch(AssertionError):
    """An input takes more CPU time or memory than the limits allow."""


def _anything(value: Any) -> None:
    """Accept every value."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a parser or a port.

    Parameters
    ----------
    name : str
    reads : str
        What the bytes are, in a few words.
    read : callable
        Reads bytes; may raise what `refuses` has.
    refuses : sequence of exception types
        The documented errors.
    holds : callable, optional
        Given what `read` returned; raises if that is wrong. No exception is allowed here.
    seeds : sequence of bytes
        Sound inputs, and inputs that were findings once.
    form : {"bytes", "json", "lines", "yaml"}
        What inputs look like, so that they can be changed without spoiling their syntax; ``lines`` are lines of JSON.
    longest : int
        The most bytes of an input.
    """

    name: str
    reads: str
    read: Callable[[bytes], Any]
    refuses: Sequence[type[Exception]] = ()
    holds: Callable[[Any], None] = _anything
    seeds: Sequence[bytes] = ()
    form: Literal["bytes", "json", "lines", "yaml"] = "bytes"
    longest: int = 4096

    def attempt(self, data: bytes) -> bool:
        """Give the target an input; return whether it was accepted.

        Raises
        ------
        Exception
            Whatever is raised is a finding.
        """
        try:
            value = self.read(data)
        except tuple(self.refuses) as error:
            if not str(error):
                raise AssertionError("an error without a message") from error
            return False
        self.holds(value)
        return True


class Guard:
    """Gives a target inputs, and holds it to the limits of CPU time and memory.

    Parameters
    ----------
    target : Target
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        for data in target.seeds:  # whatever is loaded with the first inputs counts for none of them
            target.attempt(data)
        self._first_kib = _peak_kib()

    def attempt(self, data: bytes) -> None:
        """Give the target an input.

        Raises
        ------
        TooMuch
            If it takes too much CPU time or memory.
        Exception
            Whatever the target raises.
        """
        before_kib, began = _peak_kib(), time.process_time()
        self._target.attempt(data)
        took_s, peak_kib = time.process_time() - began, _peak_kib()
        if took_s > MOST_CPU_S:
            raise TooMuch(
                f"an input of {len(data)} bytes took {took_s:.1f} s of CPU, at most {MOST_CPU_S:g} s are fine"
            )
        for grown_kib, what in (
            (peak_kib - before_kib, "an input"),
            (peak_kib - self._first_kib, "all inputs together"),
        ):
            if grown_kib > MOST_GROWTH_KIB:
                raise TooMuch(f"{what} took {grown_kib >> 10} MiB, at most {MOST_GROWTH_KIB >> 10} MiB are fine")


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
