"""The ways to run CARICO that the evaluation predicts: its variants under both readings of pressure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from testbed.plugin.claims import claimed

KERNEL, THESIS_WORDING = "kernel", "at-least-one-waiting"


@dataclass(frozen=True)
class Prediction:
    """A way to run CARICO. Nothing is fitted to its rows, so tables show both variants and both readings."""

    variant: str
    pressure: str = KERNEL

    def __str__(self) -> str:
        return self.variant if self.pressure == KERNEL else f"{self.variant}-{self.pressure}"

    @property
    def scheduler(self) -> str:
        """As in --scheduler; the default variant by its short name, so that its runs are found in the cache."""
        return "carico" if self.variant == "thesis-rebased" else f"carico:variant={self.variant}"

    @property
    def settings(self) -> dict[str, str]:
        return {} if self.pressure == KERNEL else {"pressure": self.pressure}


REBASED, LITERAL = Prediction("thesis-rebased"), Prediction("thesis-literal")
VARIANTS = (REBASED, LITERAL)
"""Under the kernel's reading, which is the default."""
ALL = (*VARIANTS, *(Prediction(one.variant, THESIS_WORDING) for one in VARIANTS))


def cases(
    *parameters: Iterable[Any],
    missing: Mapping[Any, str] | None = None,
    undecided: Mapping[Any, str] | None = None,
) -> list[Any]:
    """Return all combinations of some parameters' values, marked as `claimed` does; predictions by their names."""
    values = list(product(*parameters))

    def named(marked: Mapping[Any, str] | None) -> dict[Any, str]:
        known = {"-".join(map(str, value)): value for value in values}
        return {known[name]: reason for name, reason in (marked or {}).items()}

    return claimed(values, named(missing), named(undecided))


def claim(source: str, statement: str) -> pytest.MarkDecorator:
    """Return the mark of a claim of the thesis whose parameter `carico`, if it has one, is a prediction."""
    return pytest.mark.carico_claim(source, statement, columns=("carico",))
