"""Shared by all benchmarks: the command line, a description of the machine, and the file of figures.

The file is written, whole or not at all, when all figures are known.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from carico.files import write_whole
from testbed.results.provenance import cpu_model


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return a parser with the first paragraph of the benchmark's docstring as description and the option --json."""
    description = (documentation or "").strip().partition("\n\n")[0]
    result = argparse.ArgumentParser(description=" ".join(description.split()))
    result.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file")
    return result


def parse(arguments: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, and refuse a file in a missing folder before anything is measured.

    From then on, SIGTERM raises SystemExit, so that the processes that a benchmark has started are ended.
    """
    options = arguments.parse_args()
    if options.json is not None and not options.json.parent.is_dir():
        arguments.error(f"--json needs a file in a folder that exists, {options.json.parent} does not")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    return options


def machine() -> dict[str, Any]:
    """Return everything that figures depend on besides the code."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": cpu_model(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as many as CPUs"),
    }


def report(name: str, figures: Mapping[str, float], file: Path | None) -> None:
    """Write the figures to the file, if one is given.

    Raises
    ------
    ValueError
        If a figure is not a finite number; nothing is written.
    """
    for figure, value in figures.items():
        if not math.isfinite(value):
            raise ValueError(f"the figure {figure} must be a finite number, got {value}")
    if file is not None:
        content = {"name": name, "machine": machine(), "figures": dict(figures)}
        write_whole(file, (json.dumps(content, indent=2) + "\n").encode())
        print(f"written: {file}")


def run(name: str, measure: Callable[[], Mapping[str, float]], file: Path | None) -> int:
    """Measure, print the figures, write them as `report` does, and return the exit code."""
    try:
        figures = measure()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    for figure, value in figures.items():
        print(f"{figure:<28}  {value:10.3f}")
    report(name, figures, file)
    return 0
