"""The figure of a validation: completion times of pods and of jobs, on kind and on the simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from testbed.errors import ResultsError
from testbed.measurement.completion_times import pod_completion_times
from testbed.requirements import Problem, missing_packages
from testbed.results.schema import Repetition

FORMATS = (".svg", ".png", ".pdf")
_COLOURS = {"kind": "tab:blue", "simulated": "tab:orange"}


def undrawable(file: Path) -> list[Problem]:
    """Return why a figure could not be written to a file, before anything is measured."""
    found = [] if (lacking := missing_packages("figures")) is None else [lacking]
    if file.suffix not in FORMATS:
        formats = ", ".join(FORMATS)
        found.append(Problem(f"cannot draw {file}: its name ends with none of {formats}", "use one of these"))
    return found


def draw(file: Path, real: Sequence[Repetition], simulated: Sequence[Repetition]) -> None:
    """Draw both clusters' times, with a column for every scheduler: pods of all repetitions above, jobs below.

    Raises
    ------
    ResultsError
        If the file cannot be written.
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
    for row in axes:
        row[0].set_xlim(left=0)  # last, because it ends the fitting of the axis to its data
    axes[0][0].set_ylabel("share of pods")
    axes[0][0].legend(frameon=False)
    try:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    except OSError as error:
        raise ResultsError(f"cannot write the figure to {file}: {error.strerror}") from error
    finally:
        plt.close(figure)
