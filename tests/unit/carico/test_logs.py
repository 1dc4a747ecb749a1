"""Log lines as text and as JSON."""

import io
import json
import logging
import re

import pytest

from carico.logs import set_up_logs


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


def test_the_level_applies_and_a_second_set_up_repeats_no_lines(log):
    log("text", "warning")
    logger, stream = log("text", "warning")
    logger.info("no")
    logger.warning("yes")
    assert stream.getvalue().count("\n") == 1
