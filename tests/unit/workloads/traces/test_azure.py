"""The reader of the Azure VM Noise Dataset, and the noise derived from its runs."""

import contextlib
import math
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidTrace
from workloads.traces.azure import CORRELATION_S, Noise, NoiseSample, noise_of, read_noise, share_left

HEADER = "value,runtime,starttime,VM_id\n"
ROW = "7878.28,30.04,2023-06-23 16:37:49.000,0\n"
SAMPLE = Path(str(resources.files("workloads"))) / "traces" / "samples" / "azure_vm_noise.csv"
cells = st.sampled_from(["", "0", "1", "-1", "1e999", "nan", "2023-06-23 16:37:49.000", "2023-06-23", '"', "\0", "vm"])
hostile = (
    st.binary(max_size=200)
    | st.binary(max_size=100).map(lambda rest: HEADER.encode() + rest)
    | st.lists(st.lists(cells, min_size=4, max_size=4).map(",".join), max_size=4).map(
        lambda rows: (HEADER + "\n".join(rows)).encode()
    )
)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "noise.csv"
        path.write_text(text)
        return path

    return write


def samples(*vms):
    """Runs of VMs, by their values."""
    start = datetime(2024, 1, 1)
    return [
        NoiseSample(str(vm), float(value), 30.0, start + timedelta(hours=run))
        for vm, values in enumerate(vms)
        for run, value in enumerate(values)
    ]


def drawn(vms, runs, between, over_time, seed=1):
    """Runs of VMs whose noise is known."""
    rng = np.random.default_rng(seed)
    speeds = rng.normal(100, 100 * between, size=(vms, 1))
    return samples(*(speeds * rng.normal(1, over_time, size=(vms, runs))))


class TestReading:
    def test_a_row_is_read_with_its_units(self, file):
        assert read_noise(file(HEADER + ROW)) == [
            NoiseSample(vm="0", value=7878.28, runtime_s=30.04, start=datetime(2023, 6, 23, 16, 37, 49))
        ]

    def test_the_excerpt_of_the_dataset(self):
        runs = read_noise(SAMPLE)
        assert len(runs) == 60
        assert {run.vm for run in runs} == {"0", "1", "2"}
        noise = noise_of(runs)
        # The whole dataset has 1.0 to 1.3 % for this benchmark on this kind of VM (plain standard deviations).
        assert 0.005 < noise.over_time < 0.015
        assert noise.between_vms < noise.over_time

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("fast,30,2023-06-23 16:37:50,0", "line 3: value: a number "),
            ("-1,30,2023-06-23 16:37:50,0", "line 3: value: a number "),
            ("nan,30,2023-06-23 16:37:50,0", "line 3: value: a number "),
            ("1,,2023-06-23 16:37:50,0", "line 3: runtime is missing"),
            ("1,30,yesterday,0", "line 3: starttime: Invalid RFC3339 encoded datetime"),
            (
                "1,30,2023-06-23 16:37:50Z,0",
                "starttime: Expected `datetime` with no timezone component: '2023-06-23 16:37:50Z'",
            ),
            ("1,30,2023-06-23 16:37:50,", "line 3: VM_id is missing"),
            (
                "1,30,2023-06-23 16:37:49.000,0",
                "VM_id '0', starttime '2023-06-23 16:37:49' already occurs in line 2",
            ),
        ],
    )
    def test_the_message_says_where_and_what(self, file, row, message):
        path = file(HEADER + ROW + row + "\n")
        with pytest.raises(InvalidTrace) as error:
            read_noise(path)
        assert message in str(error.value)
        assert str(error.value).startswith(f"{path}, line 3: ")

    @given(hostile)
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory, content):
        path = tmp_path_factory.getbasetemp() / "hostile.csv"
        path.write_bytes(content)
        with contextlib.suppress(InvalidTrace):
            noise = noise_of(read_noise(path))
            assert all(value is None or 0 <= value < math.inf for value in (noise.over_time, noise.between_vms))


class TestNoise:
    @pytest.mark.parametrize(("between", "over_time"), [(0.1, 0.02), (0.03, 0.15), (0.2, 0.2)])
    def test_both_kinds_are_told_apart(self, between, over_time):
        noise = noise_of(drawn(vms=500, runs=40, between=between, over_time=over_time))
        assert (noise.samples, noise.vms) == (20_000, 500)
        assert noise.over_time == pytest.approx(over_time, rel=0.05)
        assert noise.between_vms == pytest.approx(between, rel=0.15)

    def test_noisy_runs_alone_do_not_make_vms_differ(self):
        noise = noise_of(drawn(vms=400, runs=12, between=0.0, over_time=0.1))
        assert noise.between_vms < 0.02

    def test_a_few_runs_far_out_do_not_decide(self):
        quiet = [run.value for run in drawn(vms=1, runs=1000, between=0, over_time=0.01)]
        disturbed = [value / 10 if run % 50 == 0 else value for run, value in enumerate(quiet)]
        before, after = (noise_of(samples(values)).over_time for values in (quiet, disturbed))
        assert after == pytest.approx(before, rel=0.2)
        assert np.std(disturbed) / np.mean(disturbed) > 10 * before

    def test_a_vm_that_is_slow_throughout_counts(self):
        noise = noise_of(samples([100] * 10, [100] * 10, [50] * 10))
        assert noise.over_time == 0
        assert noise.between_vms == pytest.approx(np.std([100, 100, 50], ddof=1) / np.mean([100, 100, 50]))

    def test_vms_that_ran_once_do_not_tell_the_two_apart(self):
        noise = noise_of(samples(*[[value] for value in (90, 100, 110)]))
        assert noise == Noise(samples=3, vms=3, over_time=None, between_vms=pytest.approx(0.1), run_s=30.0)
        assert noise.settings == {"node_speed_variation": 0.1}

    def test_one_vm_tells_nothing_of_others(self):
        noise = noise_of(samples([99, 101] * 5))
        assert noise.between_vms is None
        assert list(noise.settings) == ["speed_noise", "speed_noise_s"]

    def test_means_over_a_run_vary_less_than_the_speed_that_they_are_means_of(self):
        """A first-order process with the time constant of the settings, averaged over the length of a run."""
        step_s, run_s = 0.5, 30.0
        rng = np.random.default_rng(0)
        kept = np.exp(-step_s / CORRELATION_S)
        values = np.empty(360_000)
        values[0] = rng.normal()
        noise = rng.normal(size=values.size) * np.sqrt(1 - kept**2)
        for i in range(1, values.size):
            values[i] = kept * values[i - 1] + noise[i]
        means = values.reshape(-1, round(run_s / step_s)).mean(axis=1)
        assert means.std() / values.std() == pytest.approx(share_left(run_s), rel=0.05)

    @pytest.mark.parametrize(
        ("runs", "message"),
        [
            (samples([1, 2, 3]), "3 runs of one VM are too few: at least 10, or several VMs are needed"),
            (samples([0, 0, 5]), "the median of the runs of VM 0 is 0"),
            ([], "0 runs"),
        ],
    )
    def test_what_tells_nothing_is_refused(self, runs, message):
        with pytest.raises(InvalidTrace, match=message):
            noise_of(runs)
