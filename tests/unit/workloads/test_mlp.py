import os
import subprocess
import sys

import pytest

from workloads import mlp

SMALL = {"samples": 400, "features": 16, "layers": 2, "width": 32, "epochs": 20, "seed": 1}
SMALL_OPTIONS = [f"--{name}={value}" for name, value in SMALL.items()]
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Give `main` an environment of its own to write to."""
    for variable in BLAS_VARIABLES:
        monkeypatch.setenv(variable, "1")


def test_it_learns():
    # Guessing 400 samples of 16 classes gives 0.06 with a standard deviation of 0.01.
    assert mlp.train_and_score(**SMALL) > 0.15


def test_same_seed_same_accuracy():
    assert mlp.train_and_score(**SMALL) == mlp.train_and_score(**SMALL)


def test_every_epoch_is_trained(monkeypatch):
    from sklearn.neural_network import MLPClassifier

    trained = []

    def fit(self, *data):
        # A tolerance no improvement meets: by default training would now stop after ten epochs.
        trained.append(original(self.set_params(tol=1e9), *data))
        return trained[-1]

    original = MLPClassifier.fit
    monkeypatch.setattr(MLPClassifier, "fit", fit)
    mlp.train_and_score(**SMALL)
    assert [classifier.n_iter_ for classifier in trained] == [SMALL["epochs"]]


def test_the_sizes_reach_the_network(monkeypatch):
    from sklearn.neural_network import MLPClassifier

    seen = []
    monkeypatch.setattr(MLPClassifier, "fit", lambda self, points, _: seen.append((self, points.shape)))
    monkeypatch.setattr(MLPClassifier, "score", lambda _, points, classes: len(points) + len(set(classes)) / 100)
    result = mlp.train_and_score(samples=500, features=20, layers=8, width=24, epochs=3, seed=5)
    [(classifier, shape)] = seen
    assert shape == (500, 20)
    assert classifier.hidden_layer_sizes == (24,) * 8
    assert (classifier.max_iter, classifier.random_state) == (3, 5)
    assert result == 500.16  # the other 500 samples, of all 16 classes


def test_without_options_it_is_the_thesiss_job(monkeypatch):
    sizes = {}
    monkeypatch.setattr(mlp, "train_and_score", lambda **given: sizes.update(given) or 1.0)
    assert mlp.main([]) == 0
    assert [os.environ[variable] for variable in BLAS_VARIABLES] == ["4"] * 3
    assert sizes == {"samples": 5000, "features": 512, "layers": 8, "width": 1024, "epochs": 6, "seed": 0}


@pytest.mark.machine
def test_program_prints_its_figures_and_keeps_to_its_threads():
    # A process of its own: the threads are set before BLAS is loaded, which has long happened in this one.
    program = (
        "import sys, threadpoolctl; from workloads import mlp; code = mlp.main(sys.argv[1:]);"
        "print(*{pool['num_threads'] for pool in threadpoolctl.threadpool_info() if pool['user_api'] == 'blas'});"
        "sys.exit(code)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, "--threads=1", *SMALL_OPTIONS],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in BLAS_VARIABLES},
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    figures, threads = finished.stdout.splitlines()
    values = {name: float(value) for name, value in (field.split("=") for field in figures.split())}
    assert set(values) == {"accuracy", "peak_rss_mib", "cpu_s", "began_unix_s", "ended_unix_s"}
    assert 0 <= values["accuracy"] <= 1
    assert values["began_unix_s"] < values["ended_unix_s"]
    assert values["cpu_s"] > 0
    assert values["peak_rss_mib"] > 20  # the import of scikit-learn alone takes more
    assert threads == "1"


def test_missing_scikit_learn_names_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert mlp.main(SMALL_OPTIONS) == 1
    message = capsys.readouterr().err
    assert "pip install 'carico-testbed[workloads]'" in message
    assert message.count("\n") == 1


def test_too_little_memory_is_one_message(capsys, monkeypatch):
    def exhausted(**_):
        raise MemoryError("no 8 TiB")

    monkeypatch.setattr(mlp, "train_and_score", exhausted)
    assert mlp.main([]) == 1
    assert capsys.readouterr().err == "mlp has too little memory for these sizes (no 8 TiB): choose smaller ones\n"


@pytest.mark.parametrize(
    "option",
    ["--threads=0", "--samples=15", "--features=3", "--layers=0", "--width=-1", "--epochs=x", f"--seed={2**32}"],
)
def test_bad_options_are_wrong_usage(capsys, option):
    with pytest.raises(SystemExit) as exit_:
        mlp.main([option])
    assert exit_.value.code == 2
    assert f"{option.split('=')[1]!r} is not a whole number from" in capsys.readouterr().err


def test_sigterm_ends_it_at_once_with_143(until, awaits_sigterm):
    arguments = [sys.executable, "-m", "workloads.mlp", "--threads=1", "--epochs=1000"]  # hours, unless it is ended
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            until(lambda: awaits_sigterm(process.pid))
            process.terminate()
            output = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 143
    assert output == (b"", b"")
