"""A small neural network, trained and used: the thesis's `sklearn` job as a real program (thesis B.2, item 2).

``python -m workloads.mlp`` trains a classifier (512 features, 16 classes, 8 hidden layers of 1024 neurons) on 5000
random samples and classifies 5000 others: a load with four threads and a footprint of hundreds of MiB. Every size is an
option. It does not benchmark learning: the number of epochs is fixed and never cut short, so the work depends only on
the options; the accuracy is printed to show that the work was done.

The thesis names these sizes and leaves the rest open: the network is otherwise scikit-learn's default, and the number
of epochs gives the job about the CPU time that the thesis's runs imply (see `DEFAULT_EPOCHS`). A seed settles the
samples, the initial weights and the order of training; the last digits of the accuracy may still depend on the BLAS
library and its threads.

Exit codes: 0 done; 1 scikit-learn missing or too little memory; 2 wrong usage; 130 and 143 ended by SIGINT and SIGTERM.
"""

import argparse
import os
import resource
import sys
import warnings
from collections.abc import Sequence

from workloads.command_line import end_on_signals, whole
from workloads.process_times import printed_times

CLASSES = 16
"""Classes told apart (thesis B.2)."""

MIN_FEATURES = 4
"""Fewest features whose hypercube has a corner for each of the `CLASSES` classes."""

DEFAULT_EPOCHS = 6
"""Passes over the training set: 90 to 100 CPU-seconds with two threads on a 2-core Xeon, 15 or 16 for each pass."""


def train_and_score(*, samples: int, features: int, layers: int, width: int, epochs: int, seed: int) -> float:
    """Train a classifier on random samples and classify as many others.

    Parameters
    ----------
    samples : int
        Samples to train on, and as many again to classify.
    features : int
        Numbers per sample, at least `MIN_FEATURES`, all of them informative.
    layers, width : int
        Hidden layers, and neurons in each.
    epochs : int
        Passes over the training set; all of them are made.
    seed : int
        Of the samples, the initial weights and the order of training.

    Returns
    -------
    float
        Share of the second half that is classified correctly, 0 to 1; guessing gives 1/16.

    Raises
    ------
    ImportError
        If scikit-learn is missing.
    """
    # Imported here, so that a wrong command line is reported at once, and BLAS starts as many threads as requested.
    from sklearn.datasets import make_classification
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    points, classes = make_classification(
        n_samples=2 * samples,
        n_features=features,
        n_informative=features,
        n_redundant=0,
        n_classes=CLASSES,
        n_clusters_per_class=1,
        class_sep=2.0,  # far enough apart for a few epochs to show in the accuracy
        random_state=seed,
    )
    # Training must not stop when the loss no longer falls: the amount of work must not depend on luck.
    classifier = MLPClassifier((width,) * layers, max_iter=epochs, n_iter_no_change=epochs, random_state=seed)
    with warnings.catch_warnings():
        # Training ends after a number of epochs on purpose, before convergence: every run would warn of that.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(points[:samples], classes[:samples])
    return float(classifier.score(points[samples:], classes[samples:]))


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads.mlp",
        description="Train a neural network on random samples, classify others with it, and print accuracy, seconds "
        "and peak memory. A load for testing schedulers: several threads, hundreds of MiB. Needs scikit-learn.",
        epilog="Exit codes: 0 done, 1 scikit-learn missing or too little memory, 2 wrong usage, 143 ended by SIGTERM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for option, allowed, default, text in (
        ("--threads", range(1, 1025), 4, "threads of the linear algebra, which takes no more than there are cores"),
        ("--samples", range(CLASSES, 10**6 + 1), 5000, "samples to train on, and as many others to classify"),
        ("--features", range(MIN_FEATURES, 10**5 + 1), 512, "numbers per sample"),
        ("--layers", range(1, 1001), 8, "hidden layers"),
        ("--width", range(1, 10**5 + 1), 1024, "neurons in each hidden layer"),
        ("--epochs", range(1, 10**6 + 1), DEFAULT_EPOCHS, "passes over the training set; the work grows with them"),
        ("--seed", range(2**32), 0, "seed of samples, initial weights and order of training"),
    ):
        parser.add_argument(option, metavar="N", type=whole(allowed), default=default, help=text)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; by default that of the process.
    """
    sizes = vars(_parser().parse_args(arguments))
    threads = sizes.pop("threads")

    # BLAS starts its threads when it is loaded, and never more than there are cores. That is good: its threads spin
    # while they wait, and four of them on two cores used almost three times the CPU time of two.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)
    try:
        accuracy = train_and_score(**sizes)
    except ImportError as error:
        print(f"mlp needs scikit-learn ({error}): pip install 'carico-testbed[workloads]'", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"mlp has too little memory for these sizes ({error}): choose smaller ones", file=sys.stderr)
        return 1

    peak_rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"accuracy={accuracy:.4f} peak_rss_mib={peak_rss_mib:.0f} {printed_times()}")
    return 0


if __name__ == "__main__":
    end_on_signals()
    sys.exit(main())
