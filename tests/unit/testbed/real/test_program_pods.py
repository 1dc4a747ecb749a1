"""The times that programs print date their pods, within what the API allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.real.program_pods import PrintedTimes, dated_by_program, request_series
from testbed.results.schema import PodResult

BEGAN_UNIX_S = 1000.0
SECONDS = st.floats(-1e4, 1e4)


@given(
    st.lists(st.floats(0.0, 100.0), min_size=4, max_size=4).map(sorted),
    SECONDS | st.floats(0.0, 100.0),
    SECONDS | st.floats(0.0, 100.0),
)
def test_printed_times_are_taken_where_they_are_possible(times, began_s, ended_s):
    created_s, scheduled_s, started_s, finished_s = times
    pod = PodResult("pi-0", "pi", "node-0", created_s, scheduled_s, started_s, finished_s, "succeeded")
    exact = dated_by_program(pod, PrintedTimes(1.5, BEGAN_UNIX_S + began_s, BEGAN_UNIX_S + ended_s), BEGAN_UNIX_S)
    assert exact.cpu_s == 1.5
    assert scheduled_s <= exact.started_s <= started_s, "the API's times are the latest that are possible"
    assert exact.started_s <= exact.finished_s <= finished_s
    if scheduled_s < began_s < started_s and began_s < ended_s < finished_s:
        assert (exact.started_s, exact.finished_s) == (pytest.approx(began_s), pytest.approx(ended_s))
    if began_s < scheduled_s - 0.2 or ended_s > finished_s + 0.2 or ended_s < began_s - 1e-6:
        assert (exact.started_s, exact.finished_s) == (started_s, finished_s), "another clock"


def test_a_pod_that_the_api_has_not_dated_keeps_no_times():
    pod = PodResult("pi-0", "pi", "node-0", 0.0, 0.1, None, None, "unfinished")
    assert dated_by_program(pod, PrintedTimes(1.5, 1001.0, 1002.0), BEGAN_UNIX_S).started_s is None


@pytest.mark.parametrize("latency", ["0.1.2", "....", "1", "9" * 400 + ".0"])
def test_a_line_of_a_client_that_is_no_answer_is_passed_over(latency):
    pod = PodResult("web-0", "web", "node-0", 0.0, 0.0, 1.0, None, "unfinished")
    log = f"due_unix_s=1002.000000 latency_s={latency}\ndue_unix_s=1003.000000 latency_s=0.001200\n"
    assert request_series(pod, log, BEGAN_UNIX_S).latency_s == [0.0012]
