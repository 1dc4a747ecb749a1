"""Puts a scheduler under test on a simulated cluster, whatever kind of scheduler it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from testbed.errors import UsageError
from testbed.schedulers.spec import CaricoSpec, KubeSchedulerSpec, OwnSpec, SchedulerSpec
from testbed.simulation.schedulers.carico import put_carico
from testbed.simulation.schedulers.kube_scheduler import put_kube_scheduler
from testbed.simulation.schedulers.own import put_own
from testbed.simulation.schedulers.under_test import Site, UnderTest

_PUT: Mapping[type[SchedulerSpec], Callable[[Site, Any], UnderTest]] = {
    CaricoSpec: put_carico,
    KubeSchedulerSpec: put_kube_scheduler,
    OwnSpec: put_own,
}


def put(site: Site, spec: SchedulerSpec) -> UnderTest:
    """Return the scheduler, ready for the site; raises what `check_kind` raises."""
    check_kind(spec)
    return _PUT[type(spec)](site, spec)


def check_kind(spec: SchedulerSpec) -> None:
    """Check that the simulated cluster can run this kind of scheduler.

    Raises
    ------
    UsageError
        If it cannot.
    """
    if type(spec) not in _PUT:
        raise UsageError(
            f"{spec.text}: a schedulerName is for real clusters: add --provider kind, kwok, xen or external (pytest: "
            f"--carico-provider), or write a scheduler for the simulated one, as module:Class"
        )
