"""Measurements of this project on the machine at hand: ``python -m benchmarks.NAME --json FILE``.

Every one prints what it found and, with ``--json``, writes ``{"name": ..., "machine": {...}, "figures": {...}}``; a
figure's name carries its unit. They measure and judge nothing: what is good enough is decided where it is asked for.
"""

import os

# Before numpy is loaded: the arrays are small, threads would only add noise, and figures compare better.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
