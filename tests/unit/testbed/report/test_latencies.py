"""The table of request latencies."""

from testbed.report.latencies import latency_table
from testbed.results.schema import PodResult, Repetition, RequestSeries


def repetition(scheduler="carico", requests=True):
    pod = PodResult("pi-0", "pi", "node-0", 10.0, 10.0, 10.0, 20.0, "succeeded")
    series = RequestSeries("web-0", "web", "node-0", [1.0, 2.0, 11.0], [0.001, 0.002, 0.0345])
    return Repetition("iso", scheduler, 1, {}, {"pi": 10.0}, [pod], [], requests=[series] if requests else [])


def test_every_scheduler_has_a_row_before_and_during_the_other_jobs():
    long = "carico:variant=thesis-literal,hold_off_s=2"
    lines = latency_table([repetition(), repetition(), repetition(long)])
    assert lines[0] == "iso · requests to web, ms"
    assert [line.split() for line in lines[2:]] == [
        ["carico", "before", "4", "1.00", "1.50", "2.00", "2.00", "2.00", "2.00"],
        ["during", "2", *6 * ["34.50"]],
        [long],
        ["before", "2", "1.00", "1.50", "1.90", "1.95", "1.99", "2.00"],
        ["during", "1", *6 * ["34.50"]],
    ]
    assert all(len(line) <= 80 for line in lines)


def test_without_a_server_there_is_no_table():
    assert latency_table([repetition(requests=False)]) == []
