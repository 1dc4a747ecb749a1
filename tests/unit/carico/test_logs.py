"""Log lines as text and as JSON."""

import io
import json
import logging
import re

import pytest

from carico.logs import FewLines, set_up_logs
from carico.testing import ManualClock


@pytest.fixture
def log():
    def run(kind, level="info"):
        stream = io.StringIO()
        set_up_logs(kind, level, stream)
        return logging.getLogger("carico.agent"), stream

    logger = logging.getLogger("carico")
    before = logger.handlers[:], logger.level, logger.propagate
    yield run
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_text_has_time_level_logger_message_and_values(log):
    logger, stream = log("text")
    logger.info("reported %d pods", 3, extra={"node": "node-1"})
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO carico\.agent: reported 3 pods node=node-1\n", stream.getvalue()
    )


def test_json_has_one_object_a_line(log):
    logger, stream = log("json")
    logger.warning("two\nlines", extra={"node": "node-1", "capacity": 2.5, "odd": {1}})
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert {name: line[name] for name in ("level", "logger", "message", "node", "capacity", "odd")} == {
        "level": "warning",
        "logger": "carico.agent",
        "message": "two\nlines",
        "node": "node-1",
        "capacity": 2.5,
        "odd": "{1}",
    }


@pytest.mark.parametrize("kind", ["text", "json"])
def test_an_exception_is_shown_with_its_trace(log, kind):
    logger, stream = log(kind)
    try:
        raise RuntimeError("lost")
    except RuntimeError:
        logger.exception("exchange failed")
    assert "RuntimeError: lost" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()


HOSTILE = "node-1\x1b[2J\r\n2030-01-01T00:00:00.000Z INFO carico.agent: all is well"


def test_what_others_say_neither_moves_the_cursor_nor_forges_a_line(log):
    logger, stream = log("text")
    logger.warning("no such node: %s", HOSTILE, extra={"node": HOSTILE})
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().rstrip("\n").isprintable()
    assert "no such node: node-1?[2J??2030-01-01" in stream.getvalue()


def test_the_lines_of_a_trace_stay_lines_and_begin_no_message(log):
    logger, stream = log("text")
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError:
        logger.exception("exchange failed")
    first, *trace = stream.getvalue().splitlines()
    assert first.endswith("carico.agent: exchange failed")
    assert trace[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in trace)
    assert trace[-2:] == ["  RuntimeError: node-1?[2J?", "  2030-01-01T00:00:00.000Z INFO carico.agent: all is well"]


def test_the_level_applies_and_a_second_set_up_repeats_no_lines(log):
    log("text", "warning")
    logger, stream = log("text", "warning")
    logger.info("no")
    logger.warning("yes")
    assert stream.getvalue().count("\n") == 1


class TestLinesThatStrangersCause:
    @pytest.fixture
    def clock(self):
        return ManualClock()

    @pytest.fixture
    def lines(self, clock):
        return FewLines(logging.getLogger("carico.http"), logging.WARNING, "refused", most=3, now=clock.now)

    def test_are_logged_with_their_values_and_the_trace(self, lines, caplog):
        lines.add("too many", client="192.0.2.1", exc_info=RuntimeError("lost"))
        (record,) = caplog.records
        assert (record.getMessage(), record.client, record.levelname) == ("refused: too many", "192.0.2.1", "WARNING")
        assert "RuntimeError: lost" in caplog.text

    def test_are_few_a_minute_and_the_others_are_counted(self, lines, clock, caplog):
        for number in range(1, 101):
            lines.add(f"{number}")
            clock.advance(0.5)
        assert caplog.messages == ["refused: 1", "refused: 2", "refused: 3"]
        clock.advance(10.0)
        lines.add("101")
        assert caplog.messages[3:] == ["refused: and 97 more within a minute", "refused: 101"]

    def test_that_are_no_more_than_a_few_are_all_logged(self, lines, clock, caplog):
        for number in range(9):
            lines.add(f"{number}")
            clock.advance(20.0)
        assert caplog.messages == [f"refused: {number}" for number in range(9)]
