"""Text of others is shown as it is, except for what is not printable."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.printable import PrintableStream, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.50 ± 0.10 → Größe, 節点", "0.50 ± 0.10 → Größe, 節点"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("one\ttwo\x7f\x9b2J", "one?two??2J"),
        ("right\u202eto left", "right?to left"),
        ("lone \udcff", "lone ?"),
    ],
)
def test_only_what_is_not_printable_is_replaced(text, shown):
    assert printable(text) == shown


def test_line_breaks_stay_where_they_are_wanted():
    assert printable("one\ntwo\x1b\r\n", lines=True) == "one\ntwo??\n"


@given(st.text(st.characters()))
def test_whatever_the_text_the_outcome_is_printable_and_as_long(text):
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


def test_a_stream_writes_only_what_is_printable_and_is_otherwise_as_before():
    inner = io.StringIO()
    stream = PrintableStream(inner)
    print("one\x1b[2J\ttwo", file=stream)
    assert inner.getvalue() == stream.getvalue() == "one?[2J\ttwo\n"
    assert stream.write("\x07\t") == 2
    assert not stream.isatty()
