"""Mechanisms known by their privacy guarantee alone, randomized response, and votes of teachers (PATE).

An (epsilon, delta) guarantee and randomized response have an exact dominating pair; zCDP, the exponential mechanism and
a table of Renyi divergences have only an upper bound on their Renyi divergences.

Source: docs/theory.md, Theorem 3.3, Lemma 8.4 and Theorem 8.5.
"""

import math
from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError, KeyedInputError, require_nonnegative, require_positive
from dpcalc.keys import CHANCE, DATA_FILE, POSITIVE_NOISE, Key, Structure, WholeNumber, Word, exact, key
from dpcalc.losses.atoms import approximate_pair, symmetric_pair
from dpcalc.losses.loss import Loss, of_two_halves
from dpcalc.losses.moments import MANY_ORDERS, Curve, RdpCurve
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.kinds import Mechanism, PairOnly, Promise, RdpOnly
from dpcalc.numerics import LOG_CDF_ERROR, Array, normal_log_cdf, normal_log_cdf_array, normal_quantile_array
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


# PATE: many teachers vote on the label of a query, and the most frequent label after noise is released.
# Every teacher is trained on its own part of the data, so that one record changes one teacher, whose vote moves from
# one label to another in any of the queries. An aggregation is the mechanism of a plan whose steps answer one query
# each. All noise is in votes. By query, `top` has the votes of the most frequent label, and `other_wins` an upper bound
# on the probability that another label wins.
# Source: docs/theory.md, Theorem 12.1, Theorem 12.2 and Lemma 12.3.


# Relative error of the log probabilities of the check; added to its moments, so ten times more costs 1e-13 a query.
_ROUNDOFF = 1e-14


@dataclass(frozen=True, kw_only=True)
class Votes:
    """The votes of all teachers on all queries, shape (queries, labels), whose rows sum to their number; private."""

    counts: NDArray[np.int64]
    teachers: int

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or not len(self.counts) or self.counts.shape[1] < 2:
            raise InputError(f"votes: expected queries x labels, at least 1 x 2, got shape {self.counts.shape}")
        if (self.counts < 0).any() or (self.counts.sum(axis=1) != self.teachers).any():
            raise InputError(f"votes: expected counts >= 0 that sum to {self.teachers} in every row")

    @property
    def top(self) -> NDArray[np.int64]:
        """Votes of the most frequent label, shape (queries,)."""
        return self.counts.max(axis=1)

    def union_bound(self, overtake: Array) -> Array:
        """Return upper bounds, by query, on the probability that the top label loses: a sum over the other labels."""
        # `overtake` has the probability that the noise makes up for a lead of 0, 1, ..., `teachers` votes.
        leads = self.top[:, None] - self.counts
        probabilities = overtake[leads]
        # The top label itself does not count; of several equal ones only the first is left out.
        probabilities[np.arange(len(self.counts)), self.counts.argmax(axis=1)] = 0.0
        return probabilities.sum(axis=1)


VOTES = (
    "every unit is in the data of one teacher only",
    "only the noisy labels are released: no votes, no teacher, nothing about the noise",
    "the queries, their number and the noise do not depend on the teachers' data or on earlier answers",
)
"""Assumptions of every guarantee of PATE."""
_VOTES_FILE = Key(
    kind=Structure({"type": "string"}),
    meaning="For types pate-lnmax, pate-gnmax and pate-confident-gnmax: a file *.npy, *.csv or *.tsv, a row for each "
    "query, a column for each label, the teachers that chose it. `epsilon` tells what these votes cost, which is "
    "itself private; nothing else reads them.",
    default=None,
)


# Log moments of a step of which one outcome is almost certain, such as a vote with a clear majority (PATE).
#
# For a step made from a dominating pair (P, Q) and an outcome of probability at least 1 - q on D, E[e^{zL}] is at most
# the largest value over sets A of
#
#     integral over A of (dP/dQ)^z dP  +  P(A^c)^(z+1) Q(A^c)^(-z),                                              (M)
#
# P(A) = q for D||D' (P belongs to D), Q(A) = q for D'||D (Q belongs to D).
#
# Source: docs/theory.md, Theorem 12.2.

BothWays = tuple[Array, Array]
"""(log moments of D||D', of D'||D); D is the data set on which the outcome has the known probability."""

MIN_MASS = 1e-280
"""Smaller probabilities are raised to this one, so that its powers stay floats."""
_MOMENT_ROUNDOFF = 4e-15  # relative error of an exponential and a few products
_UPPER_SHARES = np.array([0.0, 0.12, 0.25, 0.37, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 1.0])  # of q, in the upper tail
_LATTICE = ((-4.0, 0.004), (-12.0, 0.04), (-40.0, 0.4))  # (log of q over the largest q down to which, spacing)


def pure_dp_moments(q: Array, orders: Array, *, epsilon: float) -> BothWays:
    """Return upper bounds on log moments (both ways) of an epsilon-DP step, an outcome having at least 1 - q."""
    # For q in [0, 1] of shape (n,) and orders z > 0 of shape (m,), shape (n, m) each; those of randomized response for
    # q from 1/(1 + e^epsilon) on.
    # Source: Papernot et al. 2017 (1610.05755v4), Theorem 3, lets the certain outcome and the others have their worst
    # losses both at once and is never smaller than the first of these.
    # The pair has two losses only, epsilon and -epsilon. So the other outcomes have one of them each, all the same at
    # an extreme point: (M) is the larger of the two, as long as q < 1/(1 + e^epsilon), where the certain outcome
    # reaches the other loss. From there on the step is no better than randomized response.
    z = orders[None, :]
    randomized_response = np.logaddexp(epsilon * (z + 1), -epsilon * z) - np.logaddexp(0.0, epsilon)
    limit = 1 / (1 + np.exp(epsilon))
    mass = np.clip(q, MIN_MASS, limit)[:, None]

    def log_moment(p: Array, other: Array, loss: float) -> Array:  # if all outcomes but one have this loss
        relative_error = _MOMENT_ROUNDOFF * (1 + z * abs(loss))
        return _log_moment_upper(
            np.log(p) + z * loss, (p, other), z, mass_error=_MOMENT_ROUNDOFF, relative_error=relative_error
        )

    ahead, back = [], []
    for loss in (epsilon, -epsilon):
        ahead.append(log_moment(mass, np.minimum(mass * np.exp(-loss), 1 - 1e-16), loss))
        back.append(log_moment(np.minimum(mass * np.exp(loss), 1 - 1e-16), mass, loss))
    is_bounded = q[:, None] < limit
    return (
        np.where(is_bounded, np.minimum(np.maximum(*ahead), randomized_response), randomized_response),
        np.where(is_bounded, np.minimum(np.maximum(*back), randomized_response), randomized_response),
    )


def gaussian_moments(q: Array, orders: Array, *, shift: float) -> BothWays:
    """Return upper bounds on log moments (D||D', D'||D) of a Gaussian step with an outcome of probability >= 1 - q."""
    # Shapes as of `pure_dp_moments`; `shift` is the distance of the two means in standard deviations. They are at most
    # z (z + 1) shift^2 / 2, the Gaussian step itself.
    # (M) in closed form, the upper tail beyond u and the lower one below v. Their shares of q run through cells, of
    # which each is bounded by its larger upper tail with its larger lower tail; q is rounded up to a lattice.
    log_q = np.log(np.clip(q, MIN_MASS, 1.0))
    log_ratio = log_q - log_q.max()
    rounded = np.full(q.shape, _LATTICE[-1][0])
    for lowest, step in reversed(_LATTICE):
        rounded = np.where(log_ratio >= lowest, np.ceil(log_ratio / step) * step, rounded)
    log_places, at = np.unique(np.minimum(rounded + log_q.max(), 0.0), return_inverse=True)
    places = np.exp(log_places)
    full = orders * (orders + 1) * shift**2 / 2
    # The share of q in the upper tail is unknown. In the cell of shares [a, b] the tails have at most b q and (1 - a)
    # q; the largest over the cells bounds every share.
    shares = np.stack([_UPPER_SHARES[1:], 1 - _UPPER_SHARES[:-1]])
    tails = np.log(np.minimum(places[:, None, None] * shares * (1 + 2 * LOG_CDF_ERROR), 0.999))
    # If N(mean, 1) has mass q in two tails; inf if that is all.
    both = []
    for mean in (shift, 0.0):
        upper, lower = mean - normal_quantile_array(tails[:, 0]), mean + normal_quantile_array(tails[:, 1])
        p, other = (np.exp(_log_tail_masses(center, upper, lower)).sum(axis=0) for center in (shift, 0.0))
        is_whole = (upper <= lower) | (p >= 1) | (other >= 1)
        masses = np.where(is_whole, 0.5, p), np.where(is_whole, 0.5, other)
        columns, error = [], 4 * LOG_CDF_ERROR
        for z in orders:
            log_tails = np.logaddexp(*_log_tail_masses((z + 1) * shift, upper, lower)) + z * (z + 1) * shift**2 / 2
            moment = _log_moment_upper(log_tails, masses, z, mass_error=error, relative_error=error)
            columns.append(np.where(is_whole, np.inf, moment).max(axis=1))
        both.append(np.minimum(np.stack(columns, axis=1), full)[at.reshape(q.shape)])
    return both[0], both[1]


def _log_tail_masses(center: float, upper: Array, lower: Array) -> tuple[Array, Array]:
    """Return the log masses of N(center, 1) above `upper` and below `lower`."""
    return normal_log_cdf_array(center - upper), normal_log_cdf_array(lower - center)


def _log_moment_upper(
    log_outside: Array,
    masses: tuple[Array, Array],
    z: float | Array,
    *,
    mass_error: float,
    relative_error: float | Array,
) -> Array:
    """Return log(e^log_outside + (1 - p)^(z+1) (1 - q)^-z), masses (p, q), rounded up by the given relative errors."""
    p, q = masses
    log_certain = (z + 1) * np.log1p(-p) - z * np.log1p(-q)
    sum_error = mass_error * (z + 1) * (p / (1 - p) + q / (1 - q))
    with np.errstate(over="ignore"):
        near = np.log1p(np.exp(log_outside) * (1 + relative_error) + np.expm1(log_certain) + sum_error)
    far = np.logaddexp(log_outside, log_certain) + sum_error + relative_error
    return np.where(np.maximum(log_outside, log_certain) < 1, near, far)


# An aggregation is a rule with its noise by which votes become a label; a phase holds its `votes`.
#
# - dominating_curves(teachers): losses that together bound a query's if `teachers` >= 1 change
# - overtake_probability(leads): the probability, rounded up, that noise makes up for a lead
# - log_moments(other_wins, top, orders): upper bounds on the log moments K(z) of (D||D', D'||D), D the data with these
#   votes, each of the shape (queries, orders); the orders z are > 0


@dataclass(frozen=True, kw_only=True)
class LNMax(Mechanism):
    """The label with the most votes after Laplace noise of scale 1/gamma on each count; (2 gamma, 0)-DP."""

    name: ClassVar[str] = "pate-lnmax"
    noise_key: ClassVar[str] = "gamma"
    assumptions: ClassVar[tuple[str, ...]] = VOTES
    clips: ClassVar[bool] = False
    votes: ClassVar[Key] = _VOTES_FILE
    gamma: float = key(
        exact("1e-6", 50, "from 1e-6 to 50"),
        "Inverse scale of the Laplace noise on each count, for type pate-lnmax.",
        advice="the inverse scale of the Laplace noise on each count of votes",
    )

    def __post_init__(self) -> None:
        require_positive("gamma", self.gamma)

    @property
    def noise_multiplier(self) -> float:
        return 1 / self.gamma

    def with_noise(self, value: float) -> Self:
        return replace(self, gamma=1 / value)

    def dominating_curves(self, teachers: int) -> tuple[Curve, ...]:
        # (2 gamma, 0)-DP for each: one count falls by one, another one rises by one.
        return (ApproximateDp(epsilon=2 * self.gamma * teachers).pair(),)

    def overtake_probability(self, leads: Array) -> Array:
        """Return Pr[difference of two Laplace variables > lead]: Papernot et al. 2017 (1610.05755v4), Lemma 4."""
        x = self.gamma * leads
        return (2 + x) / 4 * np.exp(-x)

    def log_moments(self, other_wins: Array, top: NDArray[np.int64], orders: Array) -> BothWays:  # noqa: ARG002
        return pure_dp_moments(other_wins, orders, epsilon=2 * self.gamma)


@dataclass(frozen=True, kw_only=True)
class GNMax(Mechanism):
    """The most votes after Gaussian noise on each count: Papernot et al. 2018 (1802.08908v1), Propositions 7, 8."""

    name: ClassVar[str] = "pate-gnmax"
    assumptions: ClassVar[tuple[str, ...]] = VOTES
    clips: ClassVar[bool] = False
    votes: ClassVar[Key] = _VOTES_FILE
    noise_multiplier: float = key(
        POSITIVE_NOISE,
        "Under pate-gnmax and pate-confident-gnmax the standard deviation of the noise on each count, in votes.",
        advice="the standard deviation of the noise, in votes",
    )

    def __post_init__(self) -> None:
        require_positive("sigma", self.noise_multiplier)

    def dominating_curves(self, teachers: int) -> tuple[Curve, ...]:
        """Return the Gaussian loss of the counts: of each teacher one falls by one, another one rises."""
        return (_gaussian_profile(math.sqrt(2) / self.noise_multiplier * teachers),)

    def overtake_probability(self, leads: Array) -> Array:
        """Return Phi(-lead / (sqrt(2) sigma)), rounded up: the difference of two counts has sqrt(2) times the noise."""
        return np.exp(normal_log_cdf_array(-leads / (math.sqrt(2) * self.noise_multiplier)) + LOG_CDF_ERROR)

    def log_moments(self, other_wins: Array, top: NDArray[np.int64], orders: Array) -> BothWays:  # noqa: ARG002
        return gaussian_moments(other_wins, orders, shift=math.sqrt(2) / self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(GNMax):
    """GNMax only where the largest count after a first noise reaches a threshold; else that it did not is released."""

    # Papernot et al. 2018 (1802.08908v1), Algorithm 1.

    name: ClassVar[str] = "pate-confident-gnmax"
    threshold: float = key(
        exact(0, 10**9, "from 0 to 1e9"),
        "Votes that the most frequent label must reach, after the noise of the check, to be released; for type "
        "pate-confident-gnmax.",
        advice="the votes that the most frequent label must reach",
    )
    threshold_noise_multiplier: float = key(
        POSITIVE_NOISE,
        "Standard deviation of the noise of that check, in votes.",
        advice="the standard deviation of the noise of the check, in votes",
    )

    def __post_init__(self) -> None:
        GNMax.__post_init__(self)
        require_positive("threshold sigma", self.threshold_noise_multiplier)
        if not math.isfinite(self.threshold):
            raise InputError(f"threshold: expected a finite number of votes, got {self.threshold!r}")

    def dominating_curves(self, teachers: int) -> tuple[Curve, ...]:
        """Return the losses of the label and of the check, whose count each teacher changes by one at most."""
        return (
            *GNMax.dominating_curves(self, teachers),
            _gaussian_profile(teachers / self.threshold_noise_multiplier),
        )

    def log_moments(self, other_wins: Array, top: NDArray[np.int64], orders: Array) -> BothWays:
        """Return upper bounds as `LNMax.log_moments` does, of check and label, for top votes of D' one off at most."""
        # The check is one bit, whose moment is exact, and its "yes" carries that of the label. The largest count of a
        # neighbour is equal or differs by one: the worst of the three counts.
        ahead, back = GNMax.log_moments(self, other_wins, top, orders)
        own = self.log_check_probabilities(top)
        neighbours = [self.log_check_probabilities(top + change) for change in (-1, 0, 1)]
        return (
            np.maximum.reduce([_log_moments_with_check(own, other, ahead, orders) for other in neighbours]),
            np.maximum.reduce([_log_moments_with_check(other, own, back, orders) for other in neighbours]),
        )

    def log_check_probabilities(self, top: NDArray[np.int64]) -> BothWays:
        """Return the log probabilities, by query, that the check passes and that it does not."""
        # Thousands of queries have few different counts: one exact scalar evaluation each.
        counts, index = np.unique(top, return_inverse=True)
        deviations = ((counts - self.threshold) / self.threshold_noise_multiplier).tolist()
        logs = np.array([[normal_log_cdf(sign * x) for x in deviations] for sign in (1, -1)])
        return logs[0, index], logs[1, index]


PateMechanism = LNMax | GNMax


def louder(aggregation: PateMechanism, factor: float) -> PateMechanism:
    """Return the aggregation with all of its noise times a factor."""
    if isinstance(aggregation, LNMax):
        return replace(aggregation, gamma=aggregation.gamma / factor)
    noises = {"noise_multiplier", "threshold_noise_multiplier"} & {each.name for each in fields(aggregation)}
    return replace(aggregation, **{name: getattr(aggregation, name) * factor for name in noises})


def other_wins_bound(aggregation: PateMechanism, votes: Votes) -> Array:
    """Return upper bounds, by query, on the probability that another label than the top one wins."""
    # A table by lead: thousands of queries share its few values.
    overtake = aggregation.overtake_probability(np.arange(votes.teachers + 1.0))
    return np.minimum(votes.union_bound(overtake), 1 - 1 / votes.counts.shape[1])  # it wins at least 1/labels


def _log_moments_with_check(log_p: BothWays, log_q: BothWays, label_moments: Array, orders: Array) -> Array:
    """Return upper bounds >= 0 on log moments of a check and of the label that is released if it passes."""
    passes, fails = (p[:, None] + orders * (p[:, None] - q[:, None]) for p, q in zip(log_p, log_q, strict=True))
    moments = np.maximum(np.logaddexp(passes + label_moments, fails), 0.0)
    # The log of a probability near 1 is off by a share of the probability of the rarer value.
    rarer = np.maximum(np.minimum(*log_p), np.minimum(*log_q))[:, None]
    slack = _ROUNDOFF * ((2 * orders + 1) * np.exp(rarer) + 1)
    return moments * (1 + LOG_CDF_ERROR * (2 * orders + 1)) + slack


def _gaussian_profile(shift: float) -> Loss:
    """Return the profile of N(0, 1) against N(shift, 1), which is symmetric."""
    pair = MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=1 / shift)
    return of_two_halves(own=pair, other=pair, ends=(0.5, 0.5))
