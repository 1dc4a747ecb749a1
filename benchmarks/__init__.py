"""Measurements of this project on the machine at hand: ``python -m benchmarks.NAME --json FILE``.

Every one prints what it found and, with ``--json``, writes ``{"name": ..., "machine": {...}, "figures": {...}}``; a
figure's name carries its unit. They measure and judge nothing: what is good enough is decided where it is asked for.
"""
