"""The plugin's state of a session, kept in pytest's stash."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.errors import TestbedError, UsageError
from testbed.experiment.extensions import Extensions
from testbed.measurement.metrics import registered
from testbed.measurement.own import flattened
from testbed.plugin.options import Options, options_of
from testbed.plugin.outcomes import Outcomes
from testbed.requirements import Problem
from testbed.results import runs_folder
from testbed.results.run_id import new_run_id

if TYPE_CHECKING:
    from testbed.comparison.gate import Gate
    from testbed.experiment.provider import ClusterProvider
    from testbed.results.gate_file import GateFile
    from testbed.results.record import RunRecord
    from testbed.results.run import RunState
    from testbed.results.schema import Results
    from testbed.schedulers.interface import Scheduler
    from workloads.scenario import Scenario

FINAL_STATES: dict[int, RunState] = {
    pytest.ExitCode.OK: "complete",
    pytest.ExitCode.TESTS_FAILED: "complete",
    pytest.ExitCode.NO_TESTS_COLLECTED: "complete",
    pytest.ExitCode.INTERRUPTED: "interrupted",
}
"""The final state of a run by pytest's exit status; any other status means "failed"."""


@dataclass
class State:
    """The state of a session, in the process that reports or in one of xdist's workers."""

    options: Options
    worker: bool
    root: Path
    """The folder that holds `.carico`."""
    command: Sequence[str]
    """The command line, beginning with `pytest`."""
    run_id: str
    """The same in all processes of the session."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    provider: ClusterProvider | None = None
    """The session's provider, after the first call of `provider_of`."""
    is_part: bool = False
    """Whether only a part of the cluster tests was chosen, so that a baseline may have more."""
    left_out: int = 0
    """Number of cluster tests that were not asked for."""
    order: dict[str, int] = field(default_factory=dict)
    """Places of the tests in the session, by node id."""
    outcomes: Outcomes = field(default_factory=Outcomes)
    marker_problems: list[Problem] = field(default_factory=list)
    """What is wrong with the markers of tests that are not run."""
    for_other_providers: dict[str, int] = field(default_factory=dict)
    """Number of cluster tests for other providers, by provider."""
    warnings: list[str] = field(default_factory=list)
    """What the tests that were collected will not be able to judge."""
    messages: list[str] = field(default_factory=list)
    """The provider's messages about its cluster."""
    extensions: Extensions = field(default_factory=Extensions)
    """What hooks have added."""
    skip_reason: str = ""
    """The reason for skipping all cluster tests; empty if they can be run."""
    results: Results | None = None
    written: Path | None = None
    """The results file, once it is written."""
    ended: RunState | None = None
    """The run's final state, if there was a run."""
    error: str = ""
    """An error that no test's report contains."""
    gate: Gate | None = None
    """What the session was judged by, if it was judged."""
    test_gates: list[GateFile] = field(default_factory=list)
    """What the gates of single tests have said, once the tests have ended."""
    saved: Path | None = None
    """The baseline, once it is saved."""
    _record: RunRecord | None = None

    @property
    def run_path(self) -> Path:
        """The run's folder, whether or not it exists."""
        return runs_folder(self.root) / self.run_id

    @property
    def record(self) -> RunRecord:
        """The record of the run in this process."""
        if self._record is None:
            from testbed.results.record import RunArguments, RunRecord

            options = self.options
            arguments = RunArguments(
                command=self.command,
                preset=options.preset.name,
                repetitions=options.repetitions,
                seed=options.seed,
                settings=options.settings,
                attempts=options.attempts,
            )
            self._record = RunRecord(self.root, self.run_id, arguments)
        return self._record

    def save(self, exitstatus: int) -> None:
        """Record the run's final state and its tests' outcomes, and write the results file if anything was measured.

        The results of an incomplete run go into a separate file.

        Raises
        ------
        ResultsError
            If one of them cannot be written; the finished repetitions stay in the run's folder.
        """
        if not (self.run_path / "run.json").exists():
            return  # nothing was run, or the run could not even be begun, as a test's report says
        from testbed.results.ending import end_run
        from testbed.results.outcomes_file import write_outcomes
        from testbed.results.repetition_log import cut_off_notice

        self.ended = "failed"
        try:
            write_outcomes(self.record.folder.outcomes, self.outcomes.in_order(self.order))
        except OSError as error:
            self.error = f"cannot keep the outcomes of the tests in {self.run_path}: {error.strerror}"
        ended: RunState = FINAL_STATES.get(exitstatus, "failed")
        ending = end_run(self.record, ended, self.options.json, self.now())
        self.ended, self.results, self.written = ended, ending.results, ending.file
        if ending.cut_off:
            self.error = cut_off_notice(ending.cut_off)


PROVIDER_MEMBERS = ("name", "shared_hardware", "preflight", "check", "kubernetes_version", "made_from", "close")
"""The members of `testbed.experiment.provider.ClusterProvider`, which is not imported yet when they are checked."""

STATE = pytest.StashKey[State]()
SESSION = "testbed.plugin.session"
"""The module with the hooks of a session that has a state."""


def state_of(config: pytest.Config) -> State:
    """Return the session's state. The first call makes it, and registers the hooks of a session that has one.

    An xdist worker takes the run's id from the process that reports.

    Raises
    ------
    UsageError
        pytest's own (exit code 4), if an option, or what a hook has added, cannot be used.
    """
    if STATE in config.stash:
        return config.stash[STATE]
    from testbed.plugin.session_progress import WorkersProgress  # which imports this module

    own = ExitStack()
    config.add_cleanup(own.close)
    try:
        extensions = extensions_of(config)
        own.enter_context(registered(one.metric for one in extensions.measurements))
    except TestbedError as error:
        raise pytest.UsageError(f"carico: {error}") from error
    given = getattr(config, "workerinput", None)
    state = config.stash[STATE] = State(
        options_of(config),
        worker=given is not None,
        root=config.rootpath,
        command=["pytest", *config.invocation_params.args] if given is None else given["carico_command"],
        run_id=new_run_id(datetime.now(UTC), secrets.token_hex(2)[1:]) if given is None else given["carico_run"],
        extensions=extensions,
    )
    config.pluginmanager.register(import_module(SESSION), SESSION)
    config.pluginmanager.register(state.outcomes, "carico-outcomes")
    config.pluginmanager.register(WorkersProgress(config), "carico-progress")
    return state


def provider_name(config: pytest.Config) -> str:
    """Return the name of the session's provider; if it cannot be made, the name in the options."""
    try:
        return provider_of(config).name
    except TestbedError:
        return state_of(config).options.provider


def provider_of(config: pytest.Config) -> ClusterProvider:
    """Return the session's provider; the first call makes it with the hook, and raises what the hook raises."""
    state = state_of(config)
    if state.provider is None:
        given = config.hook.pytest_carico_provider(config=config)
        if lacking := [name for name in PROVIDER_MEMBERS if not hasattr(given, name)]:
            raise UsageError(
                f"pytest_carico_provider returned {given!r}, which has no {', '.join(lacking)}: "
                f"see testbed.experiment.provider.ClusterProvider"
            )
        state.provider = given
    assert state.provider is not None
    return state.provider


def extensions_of(config: pytest.Config) -> Extensions:
    """Return what conftest.py files and other plugins have added.

    Raises
    ------
    UsageError
        If a hook has returned something else, or a name twice.
    """
    hook = config.hook
    schedulers: dict[str, type[Scheduler]] = {}
    for given in hook.pytest_carico_schedulers(config=config):
        if not isinstance(given, Mapping):
            raise UsageError(f"pytest_carico_schedulers returned {given!r}: a mapping of names to classes is needed")
        for name, kind in given.items():
            if schedulers.setdefault(name, kind) is not kind:
                raise UsageError(f"pytest_carico_schedulers: two schedulers are named {name!r}")
    scenarios: dict[str, Scenario] = {}
    for one in (each for several in hook.pytest_carico_scenarios(config=config) for each in several):
        if not hasattr(one, "scaled"):
            raise UsageError(f"pytest_carico_scenarios gave {one!r}: a workloads.scenario.Scenario is needed")
        if scenarios.setdefault(one.name, one) is not one:
            raise UsageError(f"pytest_carico_scenarios: two scenarios are named {one.name!r}")
    measurements = hook.pytest_carico_measurements(config=config)
    return Extensions(schedulers, scenarios, tuple(flattened(measurements)))
