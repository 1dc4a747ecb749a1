"""Named sets of the simulated cluster's parameters: ``--set parameters=NAME``; other settings override the set.

`kind` is what `carico-testbed validate` measured (docs/reference/validation.md): nodes that share one machine, as
containers with a quota of its CPUs. The platform's requests and memory depend on the scenario's nodes: here they are
those of `pi-two-nodes`. Agents' CPU is part of the background's there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT = "thesis"

KIND: Mapping[str, Any] = {
    "quota_of_cpus": 2.0,
    "agent_cores": 0.0,
    "background_cores": 0.0117,
    "background_variation": 1.29,
    "background_cores_per_pod": 0.0026,
    "background_memory": 0.128,
    "background_memory_variation": 0.0031,
    "platform_millicpu": 20,
    "platform_memory_mib": 64,
    "start_cpu_s": 0.142,
    "started_cpu_s": 0.038,
    "stop_cpu_s": 0.127,
    "start_delay_min_s": 0.0,
    "start_delay_max_s": 0.0,
    "starts_per_s": 11.4,
    "running_visible_min_s": 0.23,
    "running_visible_max_s": 1.0,
    "finished_visible_min_s": 1.23,
    "finished_visible_max_s": 2.04,
    "pop_from_backoff": True,
    "queueing_hints": True,
}
PARAMETER_SETS: Mapping[str, Mapping[str, Any]] = {DEFAULT: {}, "kind": KIND}
"""Values that differ from the defaults, which are calibrated on the thesis, by the name of the set."""
