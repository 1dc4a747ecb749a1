"""Kubernetes quantities: ``250m`` of a CPU, ``750Mi`` of memory. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

from workloads.errors import InvalidQuantity

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]*)")
_MOST_BYTES = 2**50
"""One pebibyte, more than any node has: a larger amount is likely a typing error, and soon overflows 64 bits."""


def parse_quantity(text: str) -> Decimal:
    """Return the number that a quantity stands for.

    Raises
    ------
    InvalidQuantity
        If it is not a quantity; signs and exponents, which no request uses, are not accepted.

    Examples
    --------
    >>> parse_quantity("250m"), parse_quantity("1Ki")
    (Decimal('0.250'), Decimal('1024'))
    """
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in _SUFFIXES:
        known = ", ".join(suffix for suffix in _SUFFIXES if suffix)
        raise InvalidQuantity(
            f"{text!r} is not a quantity: write a number and one of {known}, for example 250m or 750Mi"
        )
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def millicpu(text: str) -> int:
    """Return CPU as Kubernetes counts it, thousandths of a core, rounded up."""
    return int((parse_quantity(text) * 1000).to_integral_value(rounding="ROUND_CEILING"))


def memory_bytes(text: str) -> int:
    """Return memory in whole bytes, rounded up.

    Raises
    ------
    InvalidQuantity
        Also if the quantity has the suffix `m` (thousandths of a byte are always a mistake) or is more than 1024Ti.
    """
    amount = parse_quantity(text)
    if text.strip().endswith("m"):
        raise InvalidQuantity(f"{text!r} is thousandths of a byte: {text.strip()[:-1]}Mi was probably meant")
    if amount > _MOST_BYTES:
        raise InvalidQuantity(f"{text!r} is more memory than any machine has: at most 1024Ti")
    return int(amount.to_integral_value(rounding="ROUND_CEILING"))
