"""The figure of a validation: completion times of pods on kind and on the simulated cluster, and those of the job."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from testbed.errors import ResultsError
from testbed.measurement.completion_times import pod_completion_times
from testbed.requirements import Problem
from testbed.results.schema import Repetition

_COLOURS = {"kind": "tab:blue", "simulated": "tab:orange"}


def missing_figures() -> list[Problem]:
    """Return what is missing to draw."""
    if find_spec("matplotlib") is not None:
        return []
    return [
        Problem("figures need matplotlib", "pip install 'carico-testbed[docs]', or in a clone pip install '.[docs]'")
    ]


def draw(file: Path, real: Sequence[Repetition], simulated: Sequence[Repetition]) -> None:
    """Draw both, a column for every scheduler: above the pods of all repetitions, below the jobs.

    Raises
    ------
    ResultsError
        If the file cannot be written, or its name says no format that can be drawn.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    schedulers = list(dict.fromkeys(one.scheduler for one in real))
    mpl.rcParams.update(
        {"svg.hashsalt": "carico", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, axes = plt.subplots(
        2, len(schedulers), figsize=(3.5 * len(schedulers), 4.6), layout="constrained", squeeze=False,
        height_ratios=(3, 1), sharex="row",
    )  # fmt: skip
    for (above, below), scheduler in zip(axes.T, schedulers, strict=True):
        for place, (where, runs) in enumerate({"kind": real, "simulated": simulated}.items()):
            mine = [one for one in runs if one.scheduler == scheduler]
            times = np.sort(
                [time for one in mine for job in one.measured_jobs for time in pod_completion_times(one.pods, job)]
            )
            above.plot(times, np.arange(1, times.size + 1) / times.size, color=_COLOURS[where], label=where)
            jobs = [taken for one in mine for taken in one.job_completion_time_s.values() if taken is not None]
            below.plot(jobs, [-place] * len(jobs), "|", color=_COLOURS[where], markersize=12)
        above.set_title(scheduler, fontsize=9)
        above.set_xlabel("PCT, s")
        below.set(xlabel="JCT, s", yticks=[0, -1], yticklabels=list(_COLOURS), ylim=(-1.6, 0.6))
        above.set_xlim(left=0)
        below.set_xlim(left=0)
    axes[0][0].set_ylabel("share of pods")
    axes[0][0].legend(frameon=False)
    try:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise ResultsError(f"cannot draw {file}: {error}") from error
    finally:
        plt.close(figure)
