"""Pi to a number of decimal places: the thesis's `pi-2000` job as a real program (thesis B.2, item 1).

``python -m workloads.pi 2000`` keeps one core busy for a few seconds and needs the standard library alone, no input and
hardly any memory. It is a load, not a way to compute pi: the digits come from the spigot of Rabinowitz and Wagon
(*American Mathematical Monthly* 102, 1995), many small integer steps, the kind of work that ``bpi(2000)`` does in the
example Job of Kubernetes's documentation. Every digit is right all the same: they show that a pod ran to its end.

Exit codes: 0 done; 2 wrong usage; 130 and 143 ended by SIGINT and SIGTERM.
"""

import argparse
import sys
from collections.abc import Sequence

from workloads.command_line import end_on_signals, whole
from workloads.process_times import printed_times

MAX_DECIMALS = 1_000_000
"""Most digits that the command line accepts, which are days of work; a larger number is a typing error."""

_GUARD_DIGITS = 10
"""Digits that are computed and dropped: neither truncating the series nor a late carry affects the digits kept."""


def pi_digits(decimals: int) -> str:
    """Compute pi, truncated (not rounded) to a number of decimal places.

    Parameters
    ----------
    decimals : int
        Digits after the point, at least 0.

    Returns
    -------
    str
        The digits as people write them: ``3`` for no decimals, else ``3.`` and `decimals` digits.

    Raises
    ------
    ValueError
        If `decimals` is negative.

    Examples
    --------
    >>> pi_digits(10)
    '3.1415926535'
    """
    if decimals < 0:
        raise ValueError(f"decimals is {decimals}; it must be 0 or more")
    count = 1 + decimals + _GUARD_DIGITS
    # pi = 2 + 1/3 (2 + 2/5 (2 + 3/7 (2 + ...))): all digits are 2 in the mixed base 1/3, 2/5, 3/7, ...; every term
    # gains one bit, and a decimal digit has log2(10) < 10/3 of them.
    mixed = [2] * (count * 10 // 3 + 1)
    digits = [0] * count
    for position in range(count):
        carry = 0
        for i in range(len(mixed) - 1, 0, -1):
            value = 10 * mixed[i] + carry * (i + 1)
            carry, mixed[i] = divmod(value, 2 * i + 1)
        digits[position], mixed[0] = divmod(10 * mixed[0] + carry, 10)

    # A digit may have come out as 10 (the spigot is one ahead of its carries): settle them from the right.
    for position in range(count - 1, 0, -1):
        carry, digits[position] = divmod(digits[position], 10)
        digits[position - 1] += carry
    text = "".join(map(str, digits[: 1 + decimals]))
    return f"{text[0]}.{text[1:]}" if decimals else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; by default that of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m workloads.pi",
        description="Compute pi on one core and print it. A CPU load for testing schedulers: the time grows with the "
        "square of DIGITS, and 2000 takes a few seconds.",
        epilog="Exit codes: 0 done, 2 wrong usage, 143 ended by SIGTERM.",
    )
    parser.add_argument(
        "digits", metavar="DIGITS", type=whole(range(MAX_DECIMALS + 1)), help="decimal places to compute, such as 2000"
    )
    parser.add_argument("--quiet", action="store_true", help="print the times of the process in place of the digits")
    options = parser.parse_args(arguments)

    digits = pi_digits(options.digits)
    print(printed_times() if options.quiet else digits)
    return 0


if __name__ == "__main__":
    end_on_signals()
    sys.exit(main())
