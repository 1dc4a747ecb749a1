"""The plugin's flags and ini keys, as pytest declares them. Every session imports this module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from testbed import arguments
from testbed.cluster_flags import ATTEMPTS_HELP, CLUSTER_FLAGS
from testbed.comparison import USUAL
from testbed.errors import suggested
from testbed.experiment.presets import DEFAULT_SEED, PRESETS
from testbed.providers import PROVIDERS

FLAGS_ONLY = ("save_baseline",)
"""Flags without an ini key."""
NAMES = (
    *(
        "provider",
        "preset",
        "seed",
        "extra_seed",
        "repetitions",
        "attempts",
        "set",
        "json",
        "html",
        "claims",
        "missing",
        "reference",
        "baseline",
        "fail_on",
        "aa",
    ),
    *(flag.name for flag in CLUSTER_FLAGS),
)
SWITCHES = ("aa", *(flag.name for flag in CLUSTER_FLAGS if flag.is_switch))
MISSING = ("fail", "skip")
"""What to do about tests whose prerequisites are missing."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the flags and the ini keys."""
    group = parser.getgroup("carico", "CARICO testbed: measures what a scheduler does to real jobs")
    presets = "; ".join(f"{preset.name}: {preset.description}" for preset in PRESETS.values())
    declare = group.addoption
    declare(
        "--carico-provider",
        **_one_of(PROVIDERS),
        help="kind of cluster that experiments run on (default: simulated, which needs no set-up)",
    )
    declare(
        "--carico-preset",
        **_one_of(PRESETS),
        help=f"size of the session. {presets} (default: ci where the environment variable CI is set, else smoke)",
    )
    declare(
        "--carico-repetitions",
        metavar="N",
        type=arguments.count,
        help="repetitions of every experiment that does not set their number itself (default: the preset's)",
    )
    declare(
        "--carico-attempts",
        metavar="N",
        type=arguments.count,
        help=f"{ATTEMPTS_HELP} (default: the preset's)",
    )
    declare(
        "--carico-seed",
        metavar="S",
        type=arguments.seed,
        help=f"seed of the first repetition (default: {DEFAULT_SEED})",
    )
    declare(
        "--carico-extra-seed",
        metavar="S",
        type=arguments.seed,
        help="one more seed on which claims are judged, for example one derived from the commit, so that nobody has "
        "chosen it (default: none)",
    )
    declare(
        "--carico-set",
        metavar="KEY=VALUE",
        type=arguments.setting,
        action="append",
        help="change a setting of the cluster (repeatable); 'carico-testbed list settings' shows them",
    )
    declare(
        "--carico-json",
        metavar="FILE",
        help="where to write the results, too; they are always in the run's own folder, .carico/latest/result.json",
    )
    declare(
        "--carico-html",
        metavar="FILE",
        help="where to write a report of the session, one HTML page with verdicts and figures; 'carico-testbed report' "
        "makes it later (default: nowhere)",
    )
    declare(
        "--carico-claims",
        metavar="FILE",
        help="where to write a Markdown table of the claims: on how many seeds each holds, with the paper's figure and "
        "the measured one (default: nowhere)",
    )
    declare(
        "--carico-reference",
        metavar="SPEC",
        help="the scheduler with which the others are compared in the summary (default: the first of each table)",
    )
    declare(
        "--carico-baseline",
        metavar="FILE",
        help="judge the session by this baseline: it fails if a figure is worse than --carico-fail-on allows, or if "
        "nothing can be compared (default: no gate)",
    )
    declare(
        "--carico-save-baseline",
        metavar="FILE|new",
        nargs="?",
        const="",
        help="save what a session measured whose tests all pass as a baseline, a small file to commit. Without FILE: "
        "make the file of --carico-baseline anew, which judges nothing then; new: add to it only what it lacks. If "
        "only a part of the tests is run (-k, --lf, single files), what a file has besides is kept. Write "
        "--carico-save-baseline=FILE with =",
    )
    declare(
        "--carico-fail-on",
        metavar="METRIC:STATISTIC:LIMIT",
        action="append",
        help=f"what fails the gate (repeatable), such as pod_completion_time:p99:+10%% or pod_outcome:oom_killed:+0 "
        f"(default: {' '.join(USUAL).replace('%', '%%')}). Without a baseline, schedulers are judged by the reference "
        f"of their table",
    )
    declare(
        "--carico-aa",
        action="store_const",
        const=True,
        help="measure the reference of every experiment a second time, in turns with the others, and compare it with "
        "itself: what differs is noise (default: no)",
    )
    declare(
        "--carico-missing",
        **_one_of(MISSING),
        help="what to do if a package, or something that the provider needs, is missing: fail before anything runs, "
        "or skip the cluster tests, which the summary then counts as NOT MEASURED (default: fail)",
    )
    for flag in CLUSTER_FLAGS:
        if flag.is_switch:
            declare(f"--carico-{flag.spelling}", action="store_const", const=True, help=flag.help)
        else:
            # A path stays a string here, because what it is relative to depends on where it is written.
            convert = str if flag.convert is Path else flag.convert
            declare(f"--carico-{flag.spelling}", metavar=flag.metavar, type=convert, help=flag.help)
    for name in NAMES:
        kind = "linelist" if name in ("set", "fail_on") else "bool" if name in SWITCHES else "string"
        spelling = name.replace("_", "-")
        parser.addini(f"carico_{name}", f"default of --carico-{spelling}", type=kind, default=None)  # type: ignore[arg-type]


def refuse_unknown(parser: pytest.Parser, args: list[str]) -> None:
    """Ask which option was meant by an unknown one of ours.

    Raises
    ------
    UsageError
        pytest's own (exit code 4), if there is one.
    """
    known, unknown = parser.parse_known_and_unknown_args(args)
    ours = [f"--{name.replace('_', '-')}" for name in vars(known) if name.startswith("carico_")]
    for option in (word.partition("=")[0] for word in unknown):
        if option.startswith("--carico-"):
            meant = suggested(option, ours, "'pytest --help' lists all of them under 'CARICO testbed'")
            raise pytest.UsageError(f"carico: there is no option {option}{meant}")


def refuse_unknown_keys(config: pytest.Config) -> None:
    """Ask which ini key was meant by one that looks like ours and that nobody has declared.

    Raises
    ------
    UsageError
        pytest's own (exit code 4), if there is one.
    """
    # pytest has no public name for what it warns of; without this one, its warning is all there is.
    unknown: set[str] = getattr(config, "_get_unknown_ini_keys", set)()
    if ours := sorted(key for key in unknown if key.startswith("carico")):
        key = ours[0]
        raise pytest.UsageError(
            f"carico: there is no ini key {key!r}{suggested(key, (f'carico_{name}' for name in NAMES))}"
        )


def any_is_set(config: pytest.Config) -> bool:
    """Whether the command line or the ini file sets any option."""
    flags = (config.getoption(f"carico_{name}") for name in (*NAMES, *FLAGS_ONLY))
    lines = (config.getini(f"carico_{name}") for name in NAMES)
    return any(value is not None for value in (*flags, *lines))


def _one_of(choices: Iterable[str]) -> dict[str, Any]:
    """Return what declares an option that takes one of several values; argparse's own choices suggest nothing."""
    return {"type": arguments.one_of(choices), "metavar": f"{{{','.join(choices)}}}"}
