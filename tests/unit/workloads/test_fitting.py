"""What is said of values that do not fit a schema: the value seen, and the value wanted."""

from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from workloads.errors import Misfit
from workloads.fitting import fitted


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Struct(msgspec.Struct):
    needed: int
    other: str = ""

    def __post_init__(self):
        if self.needed == 13:
            raise ValueError("needed must not be 13,\nwhich is unlucky")


def said(value, schema, **options):
    with pytest.raises(Misfit) as misfit:
        fitted(value, schema, **options)
    return str(misfit.value)


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("five", int, "a whole number is needed, got 'five'"),
        (None, float, "a number is needed, got nothing"),
        ([], Annotated[float, Meta(ge=0, le=1)], "a number from 0 to 1 is needed, got an empty list"),
        (-1, Annotated[float, Meta(ge=0)], "a number from 0 on is needed, got -1"),
        (0.0, Annotated[float, Meta(gt=0.5)], "a number above 0.5 is needed, got 0.0"),
        (7, Annotated[int, Meta(gt=0, lt=7)], "a whole number above 0 and below 7 is needed, got 7"),
        (7, Annotated[int, Meta(le=6)], "a whole number up to 6 is needed, got 7"),
        ({"a": 1}, bool, "true or false is needed, got a mapping"),
        (True, str, "text is needed, got true: on, yes, numbers and dates need quotes to be text"),
        ("", Annotated[str, Meta(min_length=1)], "text of at least 1 character is needed, got ''"),
        ("long", Annotated[str, Meta(min_length=1, max_length=3)], "text of 1 to 3 characters is needed, got 'long'"),
        ([1, 2, 3], Annotated[list[int], Meta(max_length=2)], "a list of at most 2 entries is needed, got a list"),
        ("rde", Literal["red", "blue"], "one of blue, red is needed, got 'rde', did you mean 'red'?"),
        ("rde", Colour, "one of red, blue is needed, got 'rde', did you mean 'red'?"),
        ([], int | float | None, "a number is needed, got an empty list"),
        ([], str | bool, "text or true or false is needed, got an empty list"),
        ({1}, list[int] | None, None),
        ({"a": {"b": "x"}}, dict[str, dict[str, int]], "a.b: a whole number is needed, got 'x'"),
        ([[1, "x"]], list[list[int]], "0[1]: a whole number is needed, got 'x'"),
        ({"other": "a"}, Struct, "needed is missing: a whole number is needed"),
        ([], Struct, "a mapping with at least needed is needed, got an empty list"),
        ("a", Annotated[str, Meta(pattern="b", extra={"wanted": "the letter b"})], "the letter b is needed, got 'a'"),
        ("a", Annotated[str, Meta(pattern="b", extra={"wanted": "a b", "hidden": True})], "a b is needed"),
        ("x" * 50, int, f"a whole number is needed, got '{'x' * 40}…'"),
        (10**40, Annotated[int, Meta(le=1)], "a whole number up to 1 is needed, got a number of more than 30 digits"),
    ],
)
def test_the_value_seen_and_the_value_wanted_are_told(value, schema, message):
    if message is None:
        assert fitted(value, schema) == [1], "a set is a list"
    else:
        assert said(value, schema) == message


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("a", Annotated[str, Meta(pattern="b")], "Expected `str` matching regex 'b': 'a'"),
        (3, Annotated[int, Meta(multiple_of=2)], "Expected `int` that's a multiple of 2: 3"),
        ("now", datetime, "Invalid RFC3339 encoded datetime"),
        ({"needed": 13}, Struct, "needed must not be 13,\\nwhich is unlucky"),
    ],
)
def test_what_has_no_words_here_is_told_in_those_of_the_library_in_one_line(value, schema, message):
    assert said(value, schema) == message


def test_what_fits_is_returned_and_texts_may_be_numbers():
    assert fitted({"needed": 1}, Struct) == Struct(1)
    assert fitted("2024-12-01T00:00:00Z", datetime) == datetime(2024, 12, 1, tzinfo=UTC)
    assert fitted("1.5", float, strict=False) == 1.5
    assert said("1.5", int, strict=False) == "a whole number is needed, got '1.5'"


def test_a_message_has_the_whole_path_and_beside_a_line_its_end():
    with pytest.raises(Misfit) as misfit:
        fitted({"a": [{"needed": 1}, {"needed": "x"}]}, dict[str, list[Struct]])
    assert str(misfit.value) == "a[1].needed: a whole number is needed, got 'x'"
    assert (misfit.value.path, misfit.value.brief) == (("a", 1, "needed"), "needed: a whole number is needed, got 'x'")
