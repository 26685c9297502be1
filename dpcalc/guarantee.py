"""What a printed number is, and the guarantee a plan gives."""

import math
from dataclasses import dataclass
from enum import StrEnum

from dpcalc.adjacency import Adjacency


class Kind(StrEnum):
    """What a number claims.

    Attributes:
        UPPER: proved for every data set; never below the truth.
        LOWER: what an actual data set costs; never above the truth.
        ESTIMATE: numerically accurate, without a certificate.
        APPROXIMATION: may lie on either side of the truth.
        AS_PUBLISHED: what a published formula prints, whether or not it holds.
    """

    UPPER = "upper"
    LOWER = "lower"
    ESTIMATE = "estimate"
    APPROXIMATION = "approximation"
    AS_PUBLISHED = "as-published"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An (epsilon, delta) statement with everything needed to read it.

    Attributes:
        epsilon: the privacy bound, >= 0, `inf` when there is none; its direction is `kind`.
        epsilon_lower: certified cost of an actual data set, or None when none was computed.
        tight: whether that data set attains the one-step bound itself.
        delta: in (0, 1).
        kind: what `epsilon` claims.
        unit: name of the protected level.
        adjacency: the neighbouring relation.
        group_size: number of units protected together.
        method: the accountant's name.
        bound: name of the one-step bound the accountant composed.
        direction: the ordered pair of data sets that decides, "D||D'" or "D'||D".
    """

    epsilon: float
    epsilon_lower: float | None = None
    tight: bool = False
    delta: float
    kind: Kind
    unit: str
    adjacency: Adjacency
    group_size: int = 1
    method: str
    bound: str
    direction: str = ""

    @property
    def finite(self) -> bool:
        """Whether there is any guarantee at all."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a comparison.

    Attributes:
        method: accountant (or tool) name.
        bound: the one-step bound it composed.
        epsilon: its value, `inf` for "no finite bound", None where it does not apply.
        epsilon_lower: certified lower end, where the accountant has one.
        kind: what the number claims.
        valid: whether it is a guarantee for this plan.
        note: one line: why it is not valid or does not apply, or the detail that helps to read it.
    """

    method: str
    bound: str
    epsilon: float | None
    epsilon_lower: float | None = None
    kind: Kind
    valid: bool
    note: str = ""
