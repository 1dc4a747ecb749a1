"""Command lines: a parser that suggests what was meant, and the values of options that the pytest plugin has, too.

Values are functions for `argparse`'s `type=`.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from testbed.errors import suggested


class Parser(ArgumentParser):
    """A parser whose errors about unknown commands, options and choices suggest a known one; so do its subcommands'."""

    def __init__(self, **given: Any) -> None:
        from carico.help import Help  # only now, or every pytest session would import it

        super().__init__(**{"formatter_class": Help, **given})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse the arguments, and refuse unknown ones here, where the usage and the options are the subcommand's."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Add a suggestion to the message, print it with the usage, and exit with code 2."""
        from workloads.errors import did_you_mean  # only now, or every pytest session would import it

        if match := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += did_you_mean(match[1], re.findall(r"[\w-]+", match[2]))
        elif match := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            message += did_you_mean(match[1], re.findall(r"--[\w-]+", self.format_usage()))
        super().error(message)


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
