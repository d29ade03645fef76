"""How soon a child that died is replaced: at once, or later and later while children keep dying. Pure."""

from __future__ import annotations

from dataclasses import dataclass

QUICK_S = 60.0
"""A child that dies within so many seconds of its start died quickly; one that lived longer shows that all is well."""
LONGEST_S = 30.0
TROUBLE = 3
"""So many quick deaths in a row are worth an alarm."""


@dataclass
class Pacing:
    """The deaths of one seat's children so far.

    Example: `[round(pacing.died(1.0), 1) for _ in range(4)] == [0.0, 0.5, 1.0, 2.0]`
    """

    quick: int = 0

    def died(self, lived: float) -> float:
        """A child died after `lived` seconds. Seconds to wait before the next one starts."""
        self.quick = self.quick + 1 if lived < QUICK_S else 1
        return 0.0 if self.quick == 1 else min(LONGEST_S, 0.25 * 2.0 ** min(self.quick - 1, 16))

    def recovered(self, lives: float) -> bool:
        """A child has been alive for `lives` seconds. Whether that ends the trouble."""
        if lives < QUICK_S or not self.quick:
            return False
        was_trouble, self.quick = self.in_trouble, 0
        return was_trouble

    @property
    def in_trouble(self) -> bool:
        """Whether children keep dying."""
        return self.quick >= TROUBLE
