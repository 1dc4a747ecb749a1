"""The help of all commands, as people read and copy it."""

import argparse

import pytest

import carico.cli
import testbed.cli


def all_of(parser):
    """The parser with those of all its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from all_of(one)


PARSERS = [one for whole in (carico.cli.make_parser("carico"), testbed.cli.make_parser()) for one in all_of(whole)]


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("parser", PARSERS, ids=lambda one: one.prog)
def test_help_fits_a_terminal_and_breaks_no_name(parser):
    lines = parser.format_help().splitlines()
    assert [line for line in lines if len(line) > 80 or line.endswith("-")] == []


@pytest.mark.parametrize("parser", PARSERS, ids=lambda one: one.prog)
def test_every_argument_is_explained(parser):
    shown = [one for one in parser._actions if not isinstance(one, argparse._SubParsersAction)]
    assert [one.dest for one in shown if not one.help or one.help.startswith("(")] == []


def test_lists_stay_lists():
    (compare,) = (one for one in PARSERS if one.prog == "carico-testbed compare")
    lines = compare.format_help().splitlines()
    assert "  scheduling_throughput (pods/s): pods bound per second; more is better" in lines
