"""CARICO needs only Python and numpy; its processes on a cluster need only their extras."""

import json
import subprocess
import sys

IMPORT = """
import importlib, json, pkgutil, sys
import numpy, carico
before = set(sys.modules)
wanted = sys.argv[1:] or [
    module.name for module in pkgutil.walk_packages(carico.__path__, "carico.")
    if not module.name.endswith("__main__") and not module.name.startswith(({extra}))
]
for name in wanted:
    importlib.import_module(name)
print(json.dumps(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})))
"""
NEEDS_AN_EXTRA = (
    "carico.agent.metrics",
    "carico.agent.process",
    "carico.agent.sources",
    "carico.aggregation",
    "carico.config",
    "carico.deployment",
    "carico.enrolment",
    "carico.extender",
    "carico.http",
    "carico.kube",
    "carico.misfits",
    "carico.podevents.cgroups",
    "carico.podevents.containerd",
    "carico.podevents.folder_watch",
    "carico.rpc",
    "carico.telemetry.metrics_server",
    "carico.telemetry.recording",
)
"""Modules and packages that need an extra."""


def imported(*modules):
    program = IMPORT.format(extra=", ".join(map(repr, NEEDS_AN_EXTRA)) + ",")
    done = subprocess.run([sys.executable, "-c", program, *modules], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout)) - {"carico", "numpy"} - sys.stdlib_module_names


def test_importing_the_algorithm_imports_nothing_but_numpy_and_the_standard_library():
    assert imported() == set()


def test_the_command_line_starts_without_any_extra():
    assert imported("carico.cli", "carico.commands.record", "carico.commands.watch") == set()


def test_an_agent_imports_no_libraries_of_servers_or_the_testbed():
    others = {"kubernetes", "cryptography", "grpc", "pytest", "pandas", "scipy", "simpy", "sklearn", "psutil"}
    assert not imported("carico.agent.process") & others
