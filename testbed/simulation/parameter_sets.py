"""Named sets of the simulated cluster's parameters: ``--set parameters=NAME``, and what else is set goes on top.

`kind` is what `carico-testbed validate` measured (docs/reference/validation.md): nodes that share one machine, as
containers with a quota of its CPUs. What depends on the scenario's nodes (requests and memory of the platform) is that
of `pi-two-nodes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT = "thesis"

PARAMETER_SETS: Mapping[str, Mapping[str, Any]] = {DEFAULT: {}, "kind": {}}
"""What differs from the defaults, which are calibrated on the thesis."""
