"""The command lines of workloads: what a container runs for a job of a scenario."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.demand import demand_of
from workloads.errors import InvalidDemand
from workloads.quantity import memory_bytes

PYTHON = "python3"
_OPTIONS = {
    "mlp": {"threads": "--threads"},
    "stress": {"cpu": "--cpu", "cpu_load": "--cpu-load", "vm": "--vm", "duration_s": "--timeout"},
}
"""Parameters that the programs take as they are."""


def command_of(workload: str, parameters: Mapping[str, float | str]) -> list[str]:
    """Return the command that does what a workload's demand model describes.

    Raises
    ------
    InvalidDemand
        If no program does it, or the program has no option for a parameter: it takes what it takes.

    Examples
    --------
    >>> command_of("pi", {"digits": 500})
    ['python3', '-m', 'workloads.pi', '--quiet', '500']
    """
    demand_of(workload, parameters)
    if workload == "pi":
        return [PYTHON, "-m", "workloads.pi", "--quiet", _written("digits", parameters.get("digits", 2000))]
    if workload not in _OPTIONS:
        raise InvalidDemand(f"workload {workload} is a model without a program: use {', '.join(['pi', *_OPTIONS])}")
    options = _OPTIONS[workload]
    command = [PYTHON, "-m", f"workloads.{workload}"]
    for name, value in parameters.items():
        if name == "vm_bytes":
            command += ["--vm-bytes", str(memory_bytes(str(value)))]
        elif name in options:
            command += [options[name], str(value) if name == "duration_s" else _written(name, value)]
        else:
            raise InvalidDemand(
                f"workload {workload}: its program has no option for {name}, which describes the model alone: leave "
                f"it out to run the program"
            )
    return command


def _written(name: str, value: float | str) -> str:
    if isinstance(value, str) or value != int(value):
        raise InvalidDemand(f"{name} must be a whole number for the program, got {value!r}")
    return str(int(value))


def needs_scikit_learn(workload: str) -> bool:
    """Whether the image with scikit-learn is needed."""
    return workload == "mlp"
