"""The plugin's options: its flags and ini keys (`flags`), combined into one value.

A flag overrides the ini file, and the ini file overrides the preset.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import arguments
from testbed.cluster_flags import CLUSTER_FLAGS, Flag
from testbed.comparison.conditions import conditions
from testbed.errors import MissingExtra, TestbedError, UsageError
from testbed.experiment.presets import DEFAULT_SEED, PRESETS, Preset, default_preset
from testbed.plugin.flags import FLAGS_ONLY, MISSING, NAMES
from testbed.providers import PROVIDERS, REAL, check_cluster_options, check_settings
from testbed.report.numbers import counted

NEW = "new"
"""The value of --carico-save-baseline for what a baseline lacks."""


@dataclass(frozen=True)
class Options:
    """The options of a session."""

    provider: str
    preset: Preset
    repetitions: int
    gate_repetitions: int
    """Repetitions of tests with a gate of their own."""
    attempts: int
    """The most times that a repetition is run."""
    seed: int
    extra_seed: int | None
    """Another seed on which claims are judged; see `seeds`."""
    settings: Mapping[str, str]
    json: Path | None
    """Where to write the results, besides the run's folder."""
    html: Path | None
    """The file for the report, if one is wanted."""
    claims: Path | None
    """The file for the table of claims, if one is wanted."""
    reference: str | None
    """The scheduler with which the tables compare the others; by default the first of each."""
    baseline: Path | None
    """The file that the session is judged by."""
    save_baseline: Path | None
    """The file to which the session is saved as a baseline."""
    only_new: bool
    """Whether only what that file lacks is saved."""
    fail_on: tuple[str, ...]
    """The conditions of the gate."""
    aa: bool
    """Whether references are compared with themselves."""
    missing: str
    """What to do about tests whose prerequisites are missing, one of `MISSING`."""
    cluster: Mapping[str, Any]
    """The options of the cluster: fields of `ClusterOptions`."""
    given: bool
    """Whether any flag was given, which asks for cluster tests."""

    @property
    def judged_by(self) -> Path | None:
        """The baseline that the session is judged by: none while it is made, whole or for the first time."""
        saved, baseline = self.save_baseline, self.baseline
        made = baseline is not None and saved is not None and baseline.resolve() == saved.resolve()
        return None if made and baseline is not None and not (self.only_new and baseline.exists()) else baseline

    @property
    def judges_schedulers(self) -> bool:
        """Whether conditions are for the schedulers of the session among each other."""
        return self.baseline is None and self.save_baseline is None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds on which claims are judged, each once."""
        own = range(self.seed, self.seed + self.repetitions)
        return (*own, *(() if self.extra_seed is None or self.extra_seed in own else (self.extra_seed,)))

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "defaults"
        times = counted(self.repetitions, "rep")
        if self.attempts > 1 and self.provider in REAL:
            times += f" of up to {self.attempts} attempts"
        missing = "" if self.missing == MISSING[0] else f" missing={self.missing}"
        switches = " aa" if self.aa else ""
        switches += "".join(f" {flag.spelling}" for flag in CLUSTER_FLAGS if flag.is_switch and self.cluster[flag.name])
        places = (f" {name}={self.cluster[name]}" for name in ("kubeconfig", "context", "xen"))
        place = "".join(one for one in places if not one.endswith("=None"))
        seeds = f"seed={self.seed}" + ("" if self.extra_seed is None else f" extra-seed={self.extra_seed}")
        return (
            f"provider={self.provider}{place} preset={self.preset.name} ({times}) {seeds}{missing}{switches} "
            f"settings: {settings}"
        )


def options_of(config: pytest.Config) -> Options:
    """Return the options of a session.

    Raises
    ------
    UsageError
        pytest's own (exit code 4), if a value cannot be used.
    """
    flags = {name: config.getoption(f"carico_{name}") for name in (*NAMES, *FLAGS_ONLY)}
    try:
        preset_name = _value(config, "preset", arguments.one_of(PRESETS), None)
        preset = PRESETS[preset_name] if preset_name else default_preset(os.environ)
        provider = _value(config, "provider", arguments.one_of(PROVIDERS), PROVIDERS[0])
        baseline, fail_on = _file(config, "baseline"), tuple(flags["fail_on"] or config.getini("carico_fail_on") or ())
        conditions(fail_on)
        save_baseline, only_new = _saved(config, flags["save_baseline"], baseline)
        gate = bool(baseline or save_baseline or fail_on)
        repetitions = _value(config, "repetitions", arguments.count, preset.repetitions_of(gate))
        gate_repetitions = _value(config, "repetitions", arguments.count, preset.repetitions_of(True))
        attempts = _value(config, "attempts", arguments.count, preset.attempts)
        seed = _value(config, "seed", arguments.seed, DEFAULT_SEED)
        extra_seed = _value(config, "extra_seed", arguments.seed, None)
        # A flag replaces only the ini file's value of the same setting.
        written = arguments.settings_of(arguments.setting(line) for line in config.getini("carico_set") or [])
        settings = written | arguments.settings_of(flags["set"] or [])
        missing = _value(config, "missing", arguments.one_of(MISSING), MISSING[0])
        _check_settings(provider, settings, missing)
        cluster = {flag.name: _cluster_value(config, flag) for flag in CLUSTER_FLAGS}
        check_cluster_options(provider, cluster)
    except (TestbedError, ArgumentTypeError) as error:
        raise pytest.UsageError(f"carico: {error}") from error
    given = any(value is not None for value in flags.values())
    return Options(
        provider=provider,
        preset=preset,
        repetitions=repetitions,
        gate_repetitions=gate_repetitions,
        attempts=attempts,
        seed=seed,
        extra_seed=extra_seed,
        settings=settings,
        json=_file(config, "json"),
        html=_file(config, "html"),
        claims=_file(config, "claims"),
        reference=flags["reference"] or config.getini("carico_reference") or None,
        baseline=baseline,
        save_baseline=save_baseline,
        only_new=only_new,
        fail_on=fail_on,
        aa=bool(flags["aa"] or config.getini("carico_aa")),
        missing=missing,
        cluster=cluster,
        given=given,
    )


def _saved(config: pytest.Config, flag: str | None, baseline: Path | None) -> tuple[Path | None, bool]:
    """Return the file to which a baseline is saved, and whether only what it lacks."""
    if flag is None:
        return None, False
    if flag in ("", NEW):
        if baseline is None:
            raise UsageError(
                f"--carico-save-baseline{'=' * bool(flag)}{flag} needs --carico-baseline FILE, or carico_baseline in "
                f"the ini file; --carico-save-baseline=FILE names a file of its own"
            )
        return baseline, flag == NEW
    file = config.invocation_params.dir / Path(flag).expanduser()
    if file.is_dir() or file.suffix == ".py" or "::" in flag:
        raise UsageError(f"--carico-save-baseline took {flag} for its file: write --carico-save-baseline= before it")
    return file, False


def _check_settings(provider: str, settings: Mapping[str, Any], missing: str) -> None:
    try:
        check_settings(provider, settings)
    except MissingExtra:
        if missing == "fail":
            raise
        # No test will run with these settings, so they need no check.


def _cluster_value(config: pytest.Config, flag: Flag) -> Any:
    if flag.is_switch:
        return bool(config.getoption(f"carico_{flag.name}") or config.getini(f"carico_{flag.name}"))
    if flag.convert is Path:
        return _file(config, flag.name)
    return _value(config, flag.name, flag.convert, flag.default)


def _value(config: pytest.Config, name: str, convert: Callable[[str], Any], default: Any) -> Any:
    flag = config.getoption(f"carico_{name}")
    written: Any = config.getini(f"carico_{name}")
    if flag is not None:
        return flag
    try:
        return convert(written) if written else default
    except ArgumentTypeError as error:
        raise UsageError(f"carico_{name}: {error}") from error


def _file(config: pytest.Config, name: str) -> Path | None:
    """Return a path: relative to the current folder on the command line, to the root folder in the ini file."""
    written: str | None = config.getini(f"carico_{name}")
    if (flag := _flag_file(config, name)) is not None:
        return flag
    return config.rootpath / Path(written).expanduser() if written else None


def _flag_file(config: pytest.Config, name: str) -> Path | None:
    flag: str | None = config.getoption(f"carico_{name}")
    return config.invocation_params.dir / Path(flag).expanduser() if flag else None
