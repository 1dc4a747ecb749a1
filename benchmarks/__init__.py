"""Benchmarks of this project on the present machine: ``python -m benchmarks.NAME --json FILE``.

Every benchmark prints its figures and, with ``--json``, writes ``{"name": ..., "machine": {...}, "figures": {...}}``;
the name of a figure contains its unit. Benchmarks only measure; they have no thresholds.
"""

import os

# Before numpy is imported: the arrays are small, so BLAS threads would only add noise to the figures.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
