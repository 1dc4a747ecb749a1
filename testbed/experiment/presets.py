"""Presets: named sizes of a pytest session. Tests say what is measured, presets say how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_SEED = 1001
"""The seed of the first repetition. Calibration has used seeds 1 to 3, so predictions are measured on others."""


@dataclass(frozen=True)
class Preset:
    """The size of a session."""

    name: str
    repetitions: int
    """Repetitions of every experiment that does not set their number itself, where no gate judges."""
    description: str
    attempts: int = 1
    """The most times that a disturbed repetition is run; see `run_with_retries`."""
    gate_repetitions: int = 0
    """Repetitions where a gate judges, if it needs more."""

    def repetitions_of(self, gate: bool) -> int:
        """Return the repetitions of every experiment that does not set their number itself.

        Parameters
        ----------
        gate : bool
            Whether a gate judges what is measured, or what is measured becomes a baseline.
        """
        return max(self.repetitions, self.gate_repetitions) if gate else self.repetitions


SMOKE = Preset("smoke", 1, "one repetition: claims are judged on one seed")
CI = Preset(
    "ci",
    5,
    "five repetitions: claims are judged on five seeds; with a gate eight, so that it finds small changes",
    gate_repetitions=8,
)
FULL = Preset(
    "full",
    10,
    "ten repetitions, of up to three attempts each where others use the machine: for figures to be published",
    attempts=3,
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (SMOKE, CI, FULL)}


def default_preset(environment: Mapping[str, str]) -> Preset:
    """Return the preset for a session that names none: `ci` if the variable CI is set, as CI systems do, else `smoke`.

    Examples
    --------
    >>> default_preset({"CI": "true"}).name, default_preset({}).name
    ('ci', 'smoke')
    """
    return SMOKE if environment.get("CI", "").lower() in ("", "0", "false") else CI
