"""PATE: many teachers vote on the label of a query, and the most frequent label after noise is released.

Every teacher is trained on its own part of the data, so that one record changes one teacher, whose vote moves from one
label to another in any of the queries. An aggregation is the mechanism of a plan whose steps answer one query each. All
noise is in votes. By query, `top` has the votes of the most frequent label, and `other_wins` an upper bound on the
probability that another label wins.

Source: docs/theory.md, Theorem 12.1 and Lemma 12.3.
"""

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.errors import InputError, require_positive
from dpcalc.keys import POSITIVE_NOISE, Key, Structure, exact, key
from dpcalc.losses.loss import Loss, of_two_halves
from dpcalc.losses.moments import Curve
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.rdp_curve import BothWays, gaussian_moments, pure_dp_moments
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.mechanisms.kinds import Mechanism
from dpcalc.numerics.special import LOG_CDF_ERROR, normal_log_cdf, normal_log_cdf_array
from dpcalc.records import dataclass

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
        return np.asarray(self.counts.max(axis=1), dtype=np.int64)

    def union_bound(self, overtake: Array) -> Array:
        """Return upper bounds, by query, on the probability that the top label loses: a sum over the other labels.

        `overtake` has the probability that the noise makes up for a lead of 0, 1, ..., `teachers` votes.
        """
        leads = self.top[:, None] - self.counts
        probabilities = overtake[leads]
        # The top label itself does not count; of several equal ones only the first is left out.
        probabilities[np.arange(len(self.counts)), self.counts.argmax(axis=1)] = 0.0
        return np.asarray(probabilities.sum(axis=1), dtype=np.float64)


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
        return np.asarray((2 + x) / 4 * np.exp(-x))

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
        return np.asarray(np.exp(normal_log_cdf_array(-leads / (math.sqrt(2) * self.noise_multiplier)) + LOG_CDF_ERROR))

    def log_moments(self, other_wins: Array, top: NDArray[np.int64], orders: Array) -> BothWays:  # noqa: ARG002
        return gaussian_moments(other_wins, orders, shift=math.sqrt(2) / self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(GNMax):
    """GNMax only where the largest count after a first noise reaches a threshold; else that it did not is released.

    Papernot et al. 2018 (1802.08908v1), Algorithm 1.
    """

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
    bounds: Array = np.minimum(votes.union_bound(overtake), 1 - 1 / votes.counts.shape[1])  # it wins at least 1/labels
    return bounds


def _log_moments_with_check(log_p: BothWays, log_q: BothWays, label_moments: Array, orders: Array) -> Array:
    """Return upper bounds >= 0 on log moments of a check and of the label that is released if it passes."""
    passes, fails = (p[:, None] + orders * (p[:, None] - q[:, None]) for p, q in zip(log_p, log_q, strict=True))
    moments = np.maximum(np.logaddexp(passes + label_moments, fails), 0.0)
    # The log of a probability near 1 is off by a share of the probability of the rarer value.
    rarer = np.maximum(np.minimum(*log_p), np.minimum(*log_q))[:, None]
    slack = _ROUNDOFF * ((2 * orders + 1) * np.exp(rarer) + 1)
    return np.asarray(moments * (1 + LOG_CDF_ERROR * (2 * orders + 1)) + slack)


def _gaussian_profile(shift: float) -> Loss:
    """Return the profile of N(0, 1) against N(shift, 1), which is symmetric."""
    pair = MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=1 / shift)
    return of_two_halves(own=pair, other=pair, shift=1.0)
