"""All variants of CARICO by name: the thesis's, and `demand`."""

from __future__ import annotations

from carico.demand.settings import DEMAND, DemandVariant
from carico.errors import UnknownVariant
from carico.model.variants import VARIANTS as OF_THE_THESIS
from carico.model.variants import Variant

VARIANTS: dict[str, Variant | DemandVariant] = {**OF_THE_THESIS, DEMAND.name: DEMAND}


def variant_named(name: str) -> Variant | DemandVariant:
    """Return the variant with this name.

    Raises
    ------
    UnknownVariant
        If there is none; the message names all variants.
    """
    if name not in VARIANTS:
        raise UnknownVariant(f"no variant is named {name!r}; known: {', '.join(VARIANTS)}")
    return VARIANTS[name]
