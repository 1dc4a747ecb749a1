"""What users add to the testbed from outside: schedulers, scenarios and measurements. Importing it is cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from testbed.errors import UsageError, suggested

if TYPE_CHECKING:
    from testbed.measurement.own import Measurement
    from testbed.schedulers.interface import Scheduler
    from workloads.scenario import Scenario


@dataclass(frozen=True)
class Extensions:
    """Everything that was added."""

    schedulers: Mapping[str, type[Scheduler]] = field(default_factory=dict)
    """By the name that a SPEC begins with."""
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()

    def scenario(self, name: str) -> Scenario:
        """Return an added scenario, one of the catalogue, or one from a file.

        Raises
        ------
        UsageError
            If there is none.
        WorkloadError
            If a file is invalid.
        """
        from workloads.errors import UnknownScenario
        from workloads.scenario import load_scenario

        if name in self.scenarios:
            return self.scenarios[name]
        try:
            return load_scenario(name)
        except UnknownScenario as error:
            if not self.scenarios:
                raise
            by_hooks = suggested(name, self.scenarios, f"added by hooks: {', '.join(self.scenarios)}")
            raise UsageError(f"{error}{by_hooks}") from error
