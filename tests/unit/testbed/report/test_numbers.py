"""Numbers as people read them."""

import pytest

from testbed.report.numbers import figure, seconds


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (51.9312, "51.93"), (0.000123, "0.000123"), (123456.7, "123457"), (None, "-")]
)
def test_a_figure_has_four_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.50"), (99.999, "100.00"), (127.44, "127.4"), (None, "-")])
def test_seconds_can_be_compared_by_eye(value, text):
    assert seconds(value) == text
