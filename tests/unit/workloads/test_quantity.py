"""Quantities as Kubernetes reads them."""

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidQuantity
from workloads.quantity import memory_bytes, millicpu, parse_quantity

NONE_OF_THEM = [
    *("", " ", "m", "Mi", ".", "-1", "+1", "-0.5", "1 Gi", "1,5", "0x10", "1_000"),
    *("1e3", "1E", "nan", "inf", "5K", "1mi", "1GB", "1Pi", "1Gi\n2", "٣", "½", "1.2.3"),
]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", "0"),
        ("1", "1"),
        ("007", "7"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        (" 250m ", "0.250"),
        ("2k", "2000"),
        ("1M", "1000000"),
        ("1G", "1000000000"),
        ("1T", "1000000000000"),
        ("1Ki", "1024"),
        ("750Mi", "786432000"),
        ("8Gi", "8589934592"),
        ("1Ti", "1099511627776"),
    ],
)
def test_amounts(text, amount):
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", NONE_OF_THEM)
@pytest.mark.parametrize("read", [parse_quantity, millicpu, memory_bytes])
def test_what_is_no_quantity_is_named_with_an_example(read, text):
    with pytest.raises(InvalidQuantity) as error:
        read(text)
    assert repr(text) in str(error.value)
    assert "for example 250m or 750Mi" in str(error.value)


@pytest.mark.parametrize("value", [None, 1, 1.5, True, b"1", Decimal(1), ["1"]])
def test_only_text_is_a_quantity(value):
    with pytest.raises(InvalidQuantity, match="is not a quantity"):
        parse_quantity(value)


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [("100m", 100), ("1", 1000), ("0.5", 500), ("1.0005", 1001), ("0.1m", 1), ("0", 0), ("0m", 0), ("2.", 2000)],
)
def test_cpu_is_counted_in_thousandths_and_rounded_up(text, thousandths):
    assert millicpu(text) == thousandths


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("0.1", 1), ("1.5Ki", 1536), ("0", 0), ("128974848", 128974848), ("1024Ti", 2**50)]
)
def test_memory_is_counted_in_bytes_and_rounded_up(text, size):
    assert memory_bytes(text) == size


def test_thousandths_of_a_byte_are_a_slip():
    with pytest.raises(InvalidQuantity, match=r"'750m' is thousandths of a byte: 750Mi was probably meant"):
        memory_bytes("750m")


@pytest.mark.parametrize("text", ["1025Ti", "99999999999Ti", "9" * 400])
def test_more_memory_than_machines_have_is_a_slip(text):
    with pytest.raises(InvalidQuantity, match="more memory than any machine has: at most 1024Ti"):
        memory_bytes(text)


@given(st.integers(0, 10**9))
def test_a_number_of_thousandths_survives_writing(thousandths):
    assert millicpu(f"{thousandths}m") == thousandths


@given(st.integers(0, 2**40), st.sampled_from(["", "k", "Ki"]))
def test_memory_survives_writing(number, suffix):
    assert memory_bytes(f"{number}{suffix}") == number * {"": 1, "k": 1000, "Ki": 1024}[suffix]


@given(st.text() | st.text("0123456789.eEmkMGTi +-", max_size=8))
def test_any_text_is_a_quantity_or_is_refused(text):
    for read in (parse_quantity, millicpu, memory_bytes):
        with contextlib.suppress(InvalidQuantity):
            assert read(text) >= 0
