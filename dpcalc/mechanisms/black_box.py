"""Mechanisms known by their privacy guarantee alone, and randomized response.

An (epsilon, delta) guarantee and randomized response have an exact dominating pair; zCDP, the exponential mechanism and
a table of Renyi divergences have only an upper bound on their Renyi divergences.

Source: docs/theory.md, Theorem 3.3, Lemma 8.4 and Theorem 8.5.
"""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import InputError, KeyedInputError, require_nonnegative, require_positive
from dpcalc.keys import CHANCE, DATA_FILE, Structure, WholeNumber, Word, exact, key
from dpcalc.losses.atoms import approximate_pair, symmetric_pair
from dpcalc.losses.loss import Loss
from dpcalc.losses.rdp_curve import MANY_ORDERS, RdpCurve
from dpcalc.mechanisms.kinds import PairOnly, Promise, RdpOnly
from dpcalc.records import dataclass
from dpcalc.sampling.counts import power_by_squaring

PURE = exact(0, 100, "from 0 to 100")
POSITIVE = exact("1e-9", 100, "from 1e-9 to 100")
_EPSILON_MEANING = (
    "Epsilon of the guarantee of one step on its batch, for types approximate-dp, pure-dp and exponential."
)
_EPSILON_ADVICE = "say what the guarantee of one step on its batch is"
MAX_POINTS = 1000
"""Largest number of orders of a curve; published tables have about a hundred."""
_POINTS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2},
    "minItems": 1,
    "maxItems": MAX_POINTS,
}

# (epsilon, delta)-differential privacy.


@dataclass(frozen=True, kw_only=True)
class ApproximateDp(PairOnly, Promise):
    """Any mechanism that is (epsilon, delta)-DP in both directions, for batches with one change between them."""

    name: ClassVar[str] = "approximate-dp"
    epsilon: float = key(PURE, _EPSILON_MEANING, advice=_EPSILON_ADVICE)
    delta: float = key(
        CHANCE,
        "The delta of that guarantee, for type approximate-dp.",
        default=0.0,
        advice="the delta of the guarantee of one step, e.g. `delta: 1e-9`; type pure-dp has none",
        is_required=True,
    )

    def __post_init__(self) -> None:
        require_nonnegative("epsilon", self.epsilon)
        if not 0 <= self.delta < 1:
            raise InputError(f"delta: expected a number in [0, 1), got {self.delta!r}")

    def pair(self) -> Loss:
        """Return the exact symmetric pair: Kairouz, Oh, Viswanath 2015 (1311.0776v4), Theorem 3.1."""
        return approximate_pair(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True)
class PureDp(Promise):
    """Keys of `type: pure-dp`, which is an approximate-dp mechanism with delta 0."""

    name: ClassVar[str] = "pure-dp"
    epsilon: float = key(PURE, _EPSILON_MEANING, advice=_EPSILON_ADVICE)

    @classmethod
    def of(cls, **parameters: Any) -> ApproximateDp:
        return ApproximateDp(**parameters)


# Randomized response of drawn records.


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(PairOnly):
    """Every drawn record answers with its own category with one probability, else with a uniform other one."""

    name: ClassVar[str] = "randomized-response"
    relation: ClassVar[str] = "replace-one"
    assumptions: ClassVar[tuple[str, ...]] = (
        "answers by randomized response are independent, and do not say who was drawn",
    )
    truth_probability: float = key(
        CHANCE,
        "Probability of the true answer, from 1 / categories on, for type randomized-response.",
        advice="the probability with which an answer is true",
    )
    categories: int = key(WholeNumber(2), "Number of possible answers, for type randomized-response.", default=2)

    def __post_init__(self) -> None:
        if self.categories < 2:
            raise InputError(f"categories: expected a whole number >= 2, got {self.categories}")
        if not 1 / self.categories <= self.truth_probability:
            raise KeyedInputError(
                "truth_probability",
                f"must be at least 1 / {self.categories}, got {self.truth_probability!r}",
                "an answer that is drawn at random is true as often as that",
            )
        if not self.truth_probability < 1:
            raise KeyedInputError("truth_probability", f"must be below 1, got {self.truth_probability!r}")

    def pair(self, answers: int = 1) -> Loss:
        """Return the exact pair of a sum of `answers` losses, each -l, 0 or l; no losses if answers are uniform."""
        # Each answer has the loss l if it is the own category, -l if it is that of the other record, else 0; their sum
        # lies on a grid.
        loss = math.log(self.truth_probability * (self.categories - 1) / (1 - self.truth_probability))
        if loss <= 0:
            return Loss()
        # Log probabilities of an answer: the category that a record is exchanged for, all third ones, its own.
        log_exchanged = math.log1p(-self.truth_probability) - math.log(self.categories - 1)
        log_third = log_exchanged + math.log(self.categories - 2) if self.categories > 2 else -math.inf
        square = np.array([log_exchanged, log_third, math.log(self.truth_probability)])
        # Those of the sum; a single 0 in log space is the variable that is always 0.
        logs = power_by_squaring(square, answers, _log_convolve, identity=np.zeros(1))
        return symmetric_pair(loss * np.arange(-answers, answers + 1, dtype=np.float64), logs)


def _log_convolve(a: Array, b: Array) -> Array:
    """Return the convolution of two log masses on a grid, each sum on the scale of its largest term."""
    # Masses of hundreds of answers are smaller than any float, so that an FFT would lose them.
    few, many = sorted((a, b), key=len)
    top = np.full(few.size + many.size - 1, -np.inf)
    for i, log_mass in enumerate(few):
        np.maximum(top[i : i + many.size], log_mass + many, out=top[i : i + many.size])
    scale = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(top.size)
    for i, log_mass in enumerate(few):
        total[i : i + many.size] += np.exp(log_mass + many - scale[i : i + many.size])
    with np.errstate(divide="ignore"):
        return np.log(total) + scale


# Mechanisms of which only Renyi divergences are known, the same bound in both directions.


@dataclass(frozen=True, kw_only=True)
class Zcdp(RdpOnly, Promise):
    """Any zero-concentrated DP mechanism, truncated or not: rdp(a) <= rho a at every order a in (1, omega)."""

    # Source: Bun, Steinke 2016 (1605.02065v1), Definition 1.1; truncated: Bun, Dwork, Rothblum, Steinke 2018.

    name: ClassVar[str] = "zcdp"
    rho: float = key(
        PURE,
        "Renyi divergence of order a is at most rho a, for type zcdp.",
        advice="Renyi divergence of order a is at most rho a",
    )
    omega: float = key(
        exact(2 + Fraction(1, 10**9), 10**9, "above 2 and at most 1e9"),
        "... at orders below omega, for truncated zCDP.",
        default=math.inf,
    )

    def __post_init__(self) -> None:
        require_nonnegative("rho", self.rho)
        if not self.omega > 1:
            raise InputError(f"omega: expected a number above 1, got {self.omega!r}")

    def rdp(self, order: float) -> float:
        return self.rho * order if order < self.omega else math.inf


@dataclass(frozen=True, kw_only=True)
class Exponential(RdpOnly, Promise):
    """The exponential mechanism: an answer with probability proportional to e^(epsilon utility / (2 sensitivity))."""

    name: ClassVar[str] = "exponential"
    epsilon: float = key(POSITIVE, _EPSILON_MEANING, advice=_EPSILON_ADVICE)

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)

    def rdp(self, order: float) -> float:
        """Return min(epsilon, epsilon^2 a / 8): Cesar, Rogers 2020 (2004.07223v2), Lemma 3.2."""
        return min(self.epsilon, self.epsilon**2 * order / 8)


OddMoments = Literal["unknown", "nonnegative"]


@dataclass(frozen=True, kw_only=True)
class RdpTable(RdpOnly, Promise):
    """Any mechanism with given upper bounds on its Renyi divergences at some orders, in both directions."""

    name: ClassVar[str] = "rdp-curve"
    curve: tuple[tuple[float, float], ...] = key(
        Structure({"anyOf": [_POINTS, DATA_FILE]}),
        "Renyi divergence of a step on its batch by order, for type rdp-curve: [[2, 0.1], [4, 0.2]], or "
        "{file: curve.csv} with a line `order,epsilon` and one for each order. Between the orders it is on chords of "
        "(order - 1) epsilon; beyond the last nothing is claimed.",
        advice="say what one step costs by order, e.g. `curve: [[2, 0.1], [4, 0.2]]`, or `curve: {file: curve.csv}`",
    )
    epsilon: float = key(POSITIVE, "For rdp-curve what no loss exceeds, if that is known.", default=math.inf)
    odd_moments: OddMoments = key(
        Word(("unknown", "nonnegative")),
        "For type rdp-curve with poisson draws: nonnegative drops the factor 3 from the bound on the sampled curve. It "
        "may be said where E_Q[(P/Q - 1)^j] is never negative for odd j and any two batches of `relation`, as with "
        "Gaussian and Laplace noise.",
        default="unknown",
    )

    def __post_init__(self) -> None:
        values = [value for _, value in self.curve]
        if values != sorted(values):
            raise InputError("curve: expected divergences that do not fall with the order")
        if not self.epsilon > 0:
            raise InputError(f"epsilon: expected a number > 0, got {self.epsilon!r}")
        _ = self._rdp_curve  # it checks the orders

    @cached_property
    def _rdp_curve(self) -> RdpCurve:
        return RdpCurve(name=self.name, points=self.curve)

    @property
    def statement(self) -> str:
        return "the curve is right for each step, whichever batch comes first: it"

    @property
    def words(self) -> str:
        (first_order, first), (last_order, last) = self.curve[0], self.curve[-1]
        ends = f"{first:g} at order {first_order:g} to {last:g} at order {last_order:g}"
        pure = "" if math.isinf(self.epsilon) else f", epsilon {self.epsilon:g}"
        return f"{ends}{pure}{', odd moments nonnegative' if self.odd_moments == 'nonnegative' else ''}"

    @property
    def orders(self) -> tuple[float, ...]:
        # Without a pure epsilon nothing is known above the last order; with one, larger orders can give less.
        last_order = self.curve[-1][0]
        larger = tuple(order for order in MANY_ORDERS if order > last_order) if self.epsilon < math.inf else ()
        return (*(order for order, _ in self.curve), *larger)

    def rdp(self, order: float) -> float:
        return min(self.epsilon, self._rdp_curve.rdp(order))
