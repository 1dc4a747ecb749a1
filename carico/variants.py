"""All variants of CARICO by name: the thesis's, and `demand`."""

from __future__ import annotations

from difflib import get_close_matches

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
        If there is none; the message names all variants, and the one that was probably meant.
    """
    if name not in VARIANTS:
        meant = "".join(f", did you mean {close!r}?" for close in get_close_matches(name, VARIANTS, n=1))
        raise UnknownVariant(f"no variant is named {name!r}{meant or ';'} known: {', '.join(VARIANTS)}")
    return VARIANTS[name]
