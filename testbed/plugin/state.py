"""What the plugin knows of the session it is in, kept in pytest's stash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.errors import TestbedError, UsageError
from testbed.plugin.claims import Claims
from testbed.plugin.options import Options
from testbed.requirements import Problem
from testbed.results import runs_folder

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider
    from testbed.results.record import RunRecord
    from testbed.results.run import RunState
    from testbed.results.schema import Results

ENDS: dict[int, RunState] = {
    pytest.ExitCode.OK: "complete",
    pytest.ExitCode.TESTS_FAILED: "complete",
    pytest.ExitCode.NO_TESTS_COLLECTED: "complete",
    pytest.ExitCode.INTERRUPTED: "interrupted",
}
"""What became of a run, by pytest's exit status; any other means that it has failed."""


@dataclass
class State:
    """A session, in the process that reports or in one of xdist's workers."""

    options: Options
    worker: bool
    root: Path
    """The folder that has `.carico`."""
    command: Sequence[str]
    """What was typed, from pytest's own name on."""
    run_id: str
    """The same in all processes of the session."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    provider: ClusterProvider | None = None
    """What `provider_of` has found."""
    left_out: int = 0
    """Cluster tests that nobody asked for."""
    order: dict[str, int] = field(default_factory=dict)
    """Places of the tests in the session, by node id."""
    claims: Claims = field(default_factory=Claims)
    wrong: list[Problem] = field(default_factory=list)
    """What is wrong with the markers of tests that are left out."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Cluster tests that are for other providers, by these."""
    said: list[str] = field(default_factory=list)
    """What the provider had to say of its cluster."""
    unmet: str = ""
    """Why no cluster test can be run, if all of them are to be skipped for it."""
    results: Results | None = None
    written: Path | None = None
    """The results file, once it is there."""
    ended: RunState | None = None
    """What became of the run, if there was one."""
    complaint: str = ""
    """What went wrong that no test's report tells."""
    _record: RunRecord | None = None

    @property
    def run_path(self) -> Path:
        """The run's folder, whether or not it is there."""
        return runs_folder(self.root) / self.run_id

    @property
    def record(self) -> RunRecord:
        """The run, as this process sees it."""
        if self._record is None:
            from testbed.results.record import Asked, RunRecord

            options = self.options
            asked = Asked(
                self.command,
                options.preset.name,
                options.repetitions,
                options.seed,
                options.settings,
                options.attempts,
            )
            self._record = RunRecord(self.root, self.run_id, asked)
        return self._record

    def save(self, exitstatus: int) -> None:
        """Say what became of the run, if there was one, and write the results file if anything was measured.

        What is left of a run that is not complete goes into a file of its own.

        Raises
        ------
        ResultsError
            If that is not possible; nothing that was measured is lost then.
        """
        if not self.run_path.exists():
            return
        from testbed.results.ending import end_run
        from testbed.results.repetition_log import notice_of

        self.ended = "failed"
        ended: RunState = ENDS.get(exitstatus, "failed")
        ending = end_run(self.record, ended, self.options.json, self.now())
        self.ended, self.results, self.written = ended, ending.results, ending.file
        self.complaint = notice_of(ending.cut_off) if ending.cut_off else ""


PROVIDER_MEMBERS = ("name", "shared_hardware", "preflight", "check", "kubernetes_version", "close")
"""What `testbed.experiment.provider.ClusterProvider` has; not looked up there, since it is not imported yet."""

STATE = pytest.StashKey[State]()


def provider_name(config: pytest.Config) -> str:
    """Return the name of the session's provider, as far as that can be known."""
    try:
        return provider_of(config).name
    except TestbedError:
        return config.stash[STATE].options.provider


def provider_of(config: pytest.Config) -> ClusterProvider:
    """Return the session's provider; raises what making it raises."""
    state = config.stash[STATE]
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
