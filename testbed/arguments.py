"""The values of options that both the command line and the pytest plugin have, as functions for argparse's `type=`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable

from testbed.errors import suggested


def count(text: str) -> int:
    """Return a whole number from 1 on.

    Examples
    --------
    >>> count("3")
    3
    """
    return _whole_number(text, least=1)


def seed(text: str) -> int:
    """Return a whole number from 0 on."""
    return _whole_number(text, least=0)


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting.

    Examples
    --------
    >>> setting("pressure=kernel")
    ('pressure', 'kernel')
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ArgumentTypeError(f"a setting is written key=value, got {text!r}")
    return name, value


def one_of(choices: Iterable[str]) -> Callable[[str], str]:
    """Return a function that returns one of several texts.

    Examples
    --------
    >>> one_of(["kind", "kwok"])("kind")
    'kind'
    """

    def chosen(text: str) -> str:
        if text not in choices:
            raise ArgumentTypeError(f"no such value: {text!r}{suggested(text, choices)}")
        return text

    return chosen


def settings_of(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the settings by name.

    Raises
    ------
    ArgumentTypeError
        If a setting is given twice with different values: one of them would be ignored.
    """
    settings: dict[str, str] = {}
    for name, value in pairs:
        if settings.setdefault(name, value) != value:
            raise ArgumentTypeError(f"{name} is set twice, to {settings[name]} and to {value}; give it once")
    return settings


def _whole_number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentTypeError(f"a whole number from {least} on is needed, got {text!r}")
    return number
