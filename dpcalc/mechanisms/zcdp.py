"""Zero-concentrated differential privacy, truncated or not, and the exponential mechanism: Renyi divergences alone."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dpcalc.curves.rdp_curve import MANY_ORDERS
from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Zcdp:
    """Any mechanism with rdp(a) <= rho a at every order a in (1, omega).

    Attributes:
        rho: >= 0.
        omega: > 1; infinite for zCDP.

    References:
        Bun, Steinke 2016 (1605.02065v1), Definition 1.1; Bun, Dwork, Rothblum, Steinke 2018, Definition 1 (truncated).
    """

    name: ClassVar[str] = "zcdp"
    rho: float
    omega: float = math.inf

    def __post_init__(self) -> None:
        """Refuse what is no guarantee."""
        if not (math.isfinite(self.rho) and self.rho >= 0):
            raise InputError(f"rho: expected a finite number >= 0, got {self.rho!r}")
        if not self.omega > 1:
            raise InputError(f"omega: expected a number above 1, got {self.omega!r}")

    @property
    def orders(self) -> tuple[float, ...]:
        """Orders whose divergences tell nearly all that is known."""
        return MANY_ORDERS

    def rdp(self, order: float) -> float:
        """Upper bound on the Renyi divergence of an order above 1, `inf` where there is none."""
        return self.rho * order if order < self.omega else math.inf


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """The exponential mechanism: an answer with probability proportional to e^(epsilon utility / (2 sensitivity)).

    Attributes:
        epsilon: > 0; its losses lie in an interval of this length.
    """

    name: ClassVar[str] = "exponential"
    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what is not positive and finite."""
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InputError(f"epsilon: expected a finite number > 0, got {self.epsilon!r}")

    @property
    def orders(self) -> tuple[float, ...]:
        """Orders whose divergences tell nearly all that is known."""
        return MANY_ORDERS

    def rdp(self, order: float) -> float:
        """Upper bound on the Renyi divergence of an order above 1: epsilon^2 a / 8, and never above epsilon.

        References:
            Cesar, Rogers 2020 (2004.07223v2), Lemma 3.2 (bounded range epsilon is epsilon^2 / 8-zCDP).
        """
        return min(self.epsilon, self.epsilon**2 * order / 8)
