"""Private selection: a run is repeated a random number of times, and only its best result is released.

The number of repetitions must be drawn at random and stay secret, and the best run must be chosen by the results alone.

Source: docs/theory.md, Theorem 13.2.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dpcalc.accountants.closed_forms import closed_form_cumulants, closed_form_rdp
from dpcalc.accountants.rdp import best_epsilon, log_peak, sum_rounded_up
from dpcalc.errors import InputError
from dpcalc.losses.moments import ComposedMoments, Curve, composed_moments, total_infinity_mass
from dpcalc.numerics import Array, bracket_root, zoomed_minimum
from dpcalc.records import dataclass

Known = tuple[Array, Array]
_Cumulants = Callable[[Array], Array]
Runs = tuple[dict[Curve, int], ...]
"""What one run composes, for each alternative and direction; not empty."""

MAX_RUNS = 1e9
_MIN_ORDER, _MAX_ORDER = 0.02, 1e6
_FIRST_ORDERS = 64  # orders between these two, at first
_ORDERS_A_ROUND, _ROUNDS = 8, 4  # orders tried at once, and how often the interval around the best is cut again


@dataclass(frozen=True, kw_only=True)
class TruncatedNegativeBinomial:
    """Number of runs k >= 1 with probability proportional to Gamma(k + shape) / (k! Gamma(shape)) (1 - gamma)^k."""

    # Source: Papernot, Steinke 2022 (2110.03620v2), Definition 1, Theorem 2.

    shape: float  # > -1; 1 is the geometric distribution, 0 the logarithmic one
    mean: float  # runs on average, > 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shape) and self.shape > -1):
            raise InputError(f"tuning.shape: expected a finite number > -1, got {self.shape!r}")
        _refuse_mean(self.mean)

    @property
    def words(self) -> str:
        """Distribution and mean in words."""
        shape = f" of shape {self.shape:g}" if self.distribution == "negative-binomial" else ""
        return f"{self.distribution}{shape}, {self.mean:g} on average"

    @property
    def distribution(self) -> str:
        """Name of the distribution: logarithmic, geometric or negative-binomial."""
        return {0.0: "logarithmic", 1.0: "geometric"}.get(self.shape, "negative-binomial")

    @property
    def gamma(self) -> float:
        """Parameter gamma in (0, 1) that gives this mean, rounded down to the safe side; InputError if none does."""

        def mean(log_gamma: float) -> float:
            if log_gamma > -1e-9:
                return 1.0
            more = math.expm1(-log_gamma)
            return self.shape * more / -math.expm1(self.shape * log_gamma) if self.shape else more / -log_gamma

        # The mean rises as gamma falls to 0; some shapes have a largest one.
        low = -1.0
        while mean(low) < self.mean:
            low *= 2
            if low < -700:
                raise InputError(f"tuning.mean: expected one that shape {self.shape:g} can have, got {self.mean!r}")
        return math.exp(bracket_root(lambda x: mean(x) - self.mean, low, 0.0, tolerance=1e-12)[0])

    def epsilon(self, runs: Runs, *, delta: float, in_closed_form: bool = False) -> float:
        """Return an upper bound on epsilon of the best run by Theorem 2: a run's at delta / mean, plus a penalty."""
        # Theorem 2: rdp(a) + log(mean)/(a - 1) + (1 + shape) [(1 - 1/b) rdp(b) + log(1/gamma)/b], any a, b > 1. The
        # first two terms convert like a run by itself with delta / mean. The last is minimised over b on its own. Where
        # losses may be infinite it grows by (1 + shape) log(1 + infinite / gamma).
        share = delta / self.mean
        if in_closed_form:
            alone = max(closed_form_rdp(counts, delta=share).epsilon for counts in runs)
        else:
            alone = max(best_epsilon(counts, delta=share).value for counts in runs)
        log_inverse_gamma = -math.log(self.gamma)
        grown = math.log1p(_infinity_mass(runs) / self.gamma)
        # Of finite losses alone K(z) may be negative, as their mass is below 1: repeating a run never makes it cheaper.
        penalty = _min_over_orders(runs, in_closed_form, lambda z, k, _: sum_rounded_up(k, log_inverse_gamma) / (z + 1))
        return max(0.0, alone) + (1 + self.shape) * (grown + max(0.0, penalty))


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """A Poisson number of runs; none at all releases nothing."""

    # Source: Papernot, Steinke 2022 (2110.03620v2), Theorem 6.

    mean: float  # runs on average, > 1
    distribution: ClassVar[str] = "poisson"
    shape: ClassVar[float] = math.inf  # the limit of truncated negative binomial distributions for large shapes

    def __post_init__(self) -> None:
        _refuse_mean(self.mean)

    @property
    def words(self) -> str:
        """Distribution and mean in words."""
        return f"poisson, {self.mean:g} on average"

    def epsilon(self, runs: Runs, *, delta: float, in_closed_form: bool = False) -> float:
        """Return an upper bound on epsilon of the best run by Theorem 6; infinite if infinite losses use up delta."""
        # Theorem 6: rdp(a) + mean delta_a + log(mean)/(a - 1), delta_a that of a run at epsilon log(1 + 1/(a - 1)).
        # Infinite losses count in delta_a, and mean times their mass is taken from delta.
        infinite = _infinity_mass(runs)
        left = delta - self.mean * infinite
        if left <= 0:
            return math.inf

        def at_orders(z: Array, k: Array, known: Known) -> Array:
            # Markov's inequality for moments: delta(epsilon) <= exp(K(order) - order epsilon) times a peak, at the best
            # order.
            orders, moments = known
            log_finite = sum_rounded_up(moments, -orders * np.log1p(1 / z)[:, None], log_peak(orders)).min(axis=1)
            beyond = np.minimum(np.exp(np.minimum(log_finite, 0.0)) + infinite, 1.0)
            common = sum_rounded_up(k, math.log(self.mean), log_peak(z), -math.log(left)) / z
            return common + self.mean * beyond

        return max(0.0, _min_over_orders(runs, in_closed_form, at_orders))


Repetitions = TruncatedNegativeBinomial | Poisson
"""How often a run is repeated."""


def _refuse_mean(mean: float) -> None:
    if not 1 < mean <= MAX_RUNS:
        raise InputError(f"tuning.mean: expected a number above 1 and at most {MAX_RUNS:.0e}, got {mean!r}")


def _infinity_mass(runs: Runs) -> float:
    """Return the largest probability, over units and directions, that the loss of a run is infinite."""
    return max(total_infinity_mass(counts) for counts in runs)


def _min_over_orders(runs: Runs, in_closed_form: bool, bound: Callable[[Array, Array, Known], Array]) -> float:
    """Return the least value of a bound over orders z, in a range that is widened while its largest order is best."""
    # `bound` takes z, the largest K(z) of any direction, and (orders, the same of these) from next to nothing to above
    # z. Closed forms are looser, and next to no work.
    max_order, best = 32.0, math.inf
    while True:
        closed = [closed_form_cumulants(counts) for counts in runs if in_closed_form]
        moments = [composed_moments(counts, max_order=max_order) for counts in runs if not in_closed_form]

        def largest(z: Array, closed: list[_Cumulants] = closed, moments: list[ComposedMoments] = moments) -> Array:
            return np.max([*(of(z) for of in closed), *(of.cumulants(z)[0] for of in moments)], axis=0)

        wide = np.geomspace(_MIN_ORDER, max_order, _FIRST_ORDERS)
        known = wide, largest(wide)

        def at_orders(z: Array, known: Known = known, largest: _Cumulants = largest) -> Array:
            return bound(z, known[1] if z is known[0] else largest(z), known)

        value, order, _ = zoomed_minimum(at_orders, wide, rounds=_ROUNDS, count=_ORDERS_A_ROUND)
        best = min(best, value)
        if order < wide[-2] or max_order >= _MAX_ORDER:
            return best
        max_order *= 16
