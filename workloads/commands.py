"""The commands that containers run for the jobs of a scenario."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.demand import demand_of
from workloads.errors import InvalidDemand
from workloads.quantity import memory_bytes

PYTHON = "python3"
_OPTIONS = {
    "mlp": {"threads": "--threads", "samples": "--samples"},
    "stress": {"cpu": "--cpu", "cpu_load": "--cpu-load", "vm": "--vm", "duration_s": "--timeout"},
}
"""By program, the options that take a parameter unchanged, by the parameter's name."""


def command_of(workload: str, parameters: Mapping[str, float | str]) -> list[str]:
    """Return the command of the program that a workload's demand model describes.

    Raises
    ------
    InvalidDemand
        If there is no such program, or the program has no option for a parameter.

    Examples
    --------
    >>> command_of("pi", {"digits": 500})
    ['python3', '-m', 'workloads.pi', '--quiet', '500']
    """
    demand_of(workload, parameters)
    if workload == "pi":
        return [PYTHON, "-m", "workloads.pi", "--quiet", _written("digits", parameters.get("digits", 2000))]
    if workload not in _OPTIONS:
        why = "is two programs, a server and its client" if workload == "web" else "is a model without a program"
        raise InvalidDemand(f"workload {workload} {why}: single programs are {', '.join(['pi', *_OPTIONS])}")
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


def server_commands(parameters: Mapping[str, float | str], port: int) -> tuple[list[str], list[str]]:
    """Return the commands of `web`: a server that listens on a port, and a client that ends after `duration_s`.

    Raises
    ------
    InvalidDemand
        If a parameter is unknown or missing, or the programs have no option for it.
    """
    demand = demand_of("web", parameters)
    if "memory" in parameters:
        raise InvalidDemand("workload web: memory describes the model alone: leave it out to run the program")
    service = demand.service
    assert service is not None
    server = [PYTHON, "-m", "workloads.web", "serve", "--host", "0.0.0.0", "--port", str(port)]  # noqa: S104 - in a pod
    server += ["--threads", str(service.threads), "--service-ms", f"{1000 * service.cpu_seconds:.6g}"]
    client = [PYTHON, "-m", "workloads.web", "poll", f"http://127.0.0.1:{port}/", "--each"]
    return server, [*client, "--interval", f"{1 / service.rate_per_s:.6g}", "--duration", f"{demand.duration_s:g}"]


def needs_scikit_learn(workload: str) -> bool:
    """Whether a workload needs the image with scikit-learn."""
    return workload == "mlp"
