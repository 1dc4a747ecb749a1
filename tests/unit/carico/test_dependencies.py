"""What CARICO needs where it runs: Python and numpy, nothing else (it is to be light on every node)."""

import json
import subprocess
import sys

IMPORT_ALL = """
import importlib, json, pkgutil, sys
import numpy, carico
before = set(sys.modules)
for module in pkgutil.walk_packages(carico.__path__, "carico."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_importing_all_of_it_imports_nothing_but_numpy_and_the_standard_library():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, timeout=120, check=True)
    assert set(json.loads(done.stdout)) - {"carico", "numpy"} <= sys.stdlib_module_names
