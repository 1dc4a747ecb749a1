"""Sweeps: a scenario over many values of one thing, on any executor, resumable; and what is drawn from its results."""
