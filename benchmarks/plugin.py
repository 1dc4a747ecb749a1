"""Measures what the plugin costs a pytest session that does not use it: CPU time beside the same session without it.

Sessions with the plugin take turns with sessions that have a plugin without content in its place, so that both look for
installed plugins, as pytest does where any is installed. Each is a process of its own that runs one test that does
nothing, and the CPU time of that process counts. Bytecode is compiled beforehand, and nothing else is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from benchmarks.common import parse, parser, report

AIM_MS = 20.0
PLUGIN, NOTHING = "pytest_carico", "nothing"
UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
"""Variables that would have Python compile everything in every session, or pytest do something else."""
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15, metavar="N", help="sessions of each kind (default: 15)")
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_nothing.py").write_text("def test_nothing(): pass\n")
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        Path(folder, f"{NOTHING}.py").write_text("")
        _cpu_ms(folder, PLUGIN), _cpu_ms(folder, NOTHING)  # compiles bytecode
        pairs = [(_cpu_ms(folder, PLUGIN), _cpu_ms(folder, NOTHING)) for _ in range(options.rounds)]
    with_plugin, without = (median(side) for side in zip(*pairs, strict=True))
    costs = median(one - other for one, other in pairs)
    print(f"pytest with the plugin {with_plugin:.0f} ms of CPU time, without it {without:.0f} ms")
    print(f"the plugin costs {costs:.1f} ms (aim: {AIM_MS:g} ms)")
    report("plugin", {"with_ms": with_plugin, "without_ms": without, "costs_ms": costs}, options.json)


def _cpu_ms(folder: str, plugin: str) -> float:
    """Return the CPU time of a session with one plugin, in ms."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin]
    environment = {name: value for name, value in os.environ.items() if name not in UNUSUAL} | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
        "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode")),
    }
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000.0 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()
