"""Selects the cluster tests that a session runs: only those that were asked for."""

from __future__ import annotations

import os
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
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
    """Whether the command line leaves out a file of tests that earlier commands collected.

    A command that names no files has collected everything but what it ignores. What is gone since was not left out by
    anybody's choice.

    Parameters
    ----------
    config : pytest.Config
    commands : iterable of sequence of str
        Command lines, beginning with `pytest`: those that made a baseline.
    """
    ours = _parsed(config, config.invocation_params.args)
    if ours is None or not (ours.file_or_dir or ours.ignore or ours.ignore_glob):
        return False
    earlier = [parsed for command in commands if (parsed := _parsed(config, command[1:])) is not None]
    return any(
        _takes(config, command, file) and not _takes(config, ours, file)
        for command in earlier
        for file in _files(config, command)
    )


def _parsed(config: pytest.Config, command: Sequence[str]) -> Namespace | None:
    """Return the arguments of a command line; None if it has options of another version, of which nothing is known."""
    try:
        return config._parser.parse_known_args(list(command))  # an option's value must not count as a file
    except pytest.UsageError:
        return None


def _files(config: pytest.Config, command: Namespace) -> Iterator[Path]:
    """Yield the files of tests, resolved, where a command looks for tests."""
    named = _named(config, command)
    for place in named or [(config.rootpath / one).resolve() for one in config.getini("testpaths") or ["."]]:
        if place.is_file():
            yield place
        for folder, folders, files in os.walk(place):
            folders[:] = [one for one in folders if not _matches(Path(folder, one), config.getini("norecursedirs"))]
            yield from (file for one in files if _matches(file := Path(folder, one), config.getini("python_files")))


def _takes(config: pytest.Config, command: Namespace, file: Path) -> bool:
    """Whether a command collects a file of tests, as far as the files that it names and ignores decide that."""
    folder, places, named = config.invocation_params.dir, {file, *file.parents}, _named(config, command)
    ignored = {(folder / one).resolve() for one in command.ignore or ()}
    globs = [str((folder / one).resolve()) for one in command.ignore_glob or ()]
    return (
        not (named and places.isdisjoint(named))
        and places.isdisjoint(ignored)
        and not any(fnmatch(str(place), glob) for place in places for glob in globs)
    )


def _named(config: pytest.Config, command: Namespace) -> list[Path]:
    return [(config.invocation_params.dir / one.partition("::")[0]).resolve() for one in command.file_or_dir]


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    return any(path.match(one) for one in patterns)


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
