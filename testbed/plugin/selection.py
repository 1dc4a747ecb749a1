"""Selects the cluster tests that a session runs: only those that were asked for."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from testbed.plugin.marked import providers_of, wrong_keys, wrong_providers
from testbed.plugin.markers import are_asked_for, is_cluster
from testbed.plugin.options import Options
from testbed.plugin.state import State, provider_name


def select(config: pytest.Config, state: State, items: list[pytest.Item], before: Iterable[pytest.Item]) -> None:
    """Deselect the cluster tests that were not asked for, or that are for other providers; note if others did so.

    Parameters
    ----------
    config : pytest.Config
    state : State
    items : list of pytest.Item
        Changed in place.
    before : iterable of pytest.Item
        The tests that were collected, before anybody deselected some.
    """
    before = list(before)
    state.is_part = names_a_part(config, before) or not set(filter(is_cluster, before)).issubset(items)
    items[:], left_out = split(config, state.options, items)
    state.left_out = len(left_out)
    items[:], for_others = of_this_provider(items, lambda: provider_name(config))
    state.marker_problems = wrong_keys([*left_out, *for_others])
    naming = [item for item in [*items, *for_others] if is_cluster(item) and providers_of(item)]
    if state.provider is not None:  # else none names a provider, or the session's could not be made
        state.marker_problems += wrong_providers(naming, state.provider.name)
    if not state.marker_problems:  # else nothing is run, and no command that would run the others is worth telling
        state.for_other_providers = count_providers(for_others)
    state.order = {item.nodeid: place for place, item in enumerate(items)}
    if left_out or for_others:
        config.hook.pytest_deselected(items=[*left_out, *for_others])


def asks_for_all(config: pytest.Config, options: Options) -> bool:
    """Whether cluster tests in general are asked for: by one of the plugin's flags, or by an ``-m`` that names them."""
    return options.given or are_asked_for(config)


def split(
    config: pytest.Config, options: Options, items: list[pytest.Item]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run and the cluster tests to leave out."""
    if asks_for_all(config, options):
        return items, []
    out = {item for item in items if is_cluster(item) and not _is_named(config, item)}
    return [item for item in items if item not in out], [item for item in items if item in out]


def of_this_provider(
    items: list[pytest.Item], provider: Callable[[], str]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests to run and the cluster tests that are for other providers.

    Parameters
    ----------
    items : list
    provider : callable
        Returns the provider's name; called only if a test names any provider.
    """
    naming = {item: names for item in items if is_cluster(item) and (names := providers_of(item))}
    if not naming:
        return items, []
    mine = provider()
    out = {item for item, names in naming.items() if mine not in names}
    return [item for item in items if item not in out], [item for item in items if item in out]


def count_providers(items: Iterable[pytest.Item]) -> dict[str, int]:
    """Return the number of tests by provider; a test for several providers counts for the first."""
    return dict(Counter(providers_of(item)[0] for item in items))


def names_a_part(config: pytest.Config, collected: Iterable[pytest.Item]) -> bool:
    """Whether the user chose single tests. What -k, -m or a plugin for shards deselects is seen at collection.

    If none of the tests has failed before, as after a gate alone has, --lf chooses none, and all are run.
    """
    failed = _failed_before(config)
    return any("::" in str(argument) for argument in config.args) or any(one.nodeid in failed for one in collected)


def names_files(config: pytest.Config) -> bool:
    """Whether the command line names files or folders."""
    return config.args_source is pytest.Config.ArgsSource.ARGS


def leaves_out_files(config: pytest.Config, commands: Iterable[Sequence[str]]) -> bool:
    """Whether the files and folders of the command line leave out some of those that earlier commands collected.

    A command that names none has collected everything but what it ignores. What is gone since was not left out by
    anybody's choice.

    Parameters
    ----------
    config : pytest.Config
    commands : iterable of sequence of str
        Command lines, beginning with `pytest`: those that made a baseline.
    """
    earlier = [parsed for command in commands if (parsed := _parsed(config, command[1:])) is not None]
    ignored = _ignored(_parsed(config, config.invocation_params.args))
    if any(ignored - _ignored(command) for command in earlier):
        return True
    if not names_files(config):
        return False
    ours = [path for path, _ in _arguments(config)]
    theirs = [path for command in earlier for path in _collected(config, command)]
    return not all(any(path.is_relative_to(one) for one in ours) for path in theirs)


def _parsed(config: pytest.Config, command: Sequence[str]) -> Namespace | None:
    """Return the arguments of a command line; None if it has options of another version, of which nothing is known."""
    try:
        return config._parser.parse_known_args(list(command))  # an option's value must not count as a file
    except pytest.UsageError:
        return None


def _ignored(command: Namespace | None) -> set[str]:
    return set() if command is None else {*(command.ignore or ()), *(command.ignore_glob or ())}


def _collected(config: pytest.Config, command: Namespace) -> list[Path]:
    named: list[str] = command.file_or_dir
    folder = config.invocation_params.dir if named else config.rootpath
    written = named or config.getini("testpaths") or ["."]
    return [path for one in written if (path := (folder / one.partition("::")[0]).resolve()).exists()]


def _is_named(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether the command line names a test or its file, or --lf selects it."""
    name = item.nodeid.partition("::")[2]
    for path, wanted in _arguments(config):
        if path == item.path and (not wanted or name == wanted or name.startswith((f"{wanted}::", f"{wanted}["))):
            return True
    return item.nodeid in _failed_before(config)


def _failed_before(config: pytest.Config) -> Container[str]:
    """Return the node ids among which --lf chooses; none without it."""
    cache = getattr(config, "cache", None)
    failed: Mapping[str, bool] = cache.get("cache/lastfailed", {}) if cache and config.getoption("lf", False) else {}
    return failed


def _arguments(config: pytest.Config) -> Iterable[tuple[Path, str]]:
    """Yield the files and folders of the command line, each with the name of a test or an empty string."""
    if not names_files(config):
        return
    for argument in config.args:
        path, _, name = argument.partition("::")
        yield (config.invocation_params.dir / path).resolve(), name
