"""A data-dependent epsilon of PATE that may be published: noise as large as the smooth sensitivity, rounded up.

Only the lead of a query counts: the lead at which `labels - 1` equally strong rivals together would win as likely as
the union bound says. One teacher moves it by two votes at most (ours): with h(lead) the probability that one rival
wins, the map y -> h(h^-1(y) - 2) is concave, because the density of the difference of two log-concave noises is
log-concave and so h'(x - 2) / h'(x) rises with x; by Jensen's inequality the rivals' probability after the move, at
most sum h(lead_j - 2), is no larger than that of equal rivals. (Papernot et al. 2018, Propositions 18 and 19, have
this for Gaussian noise.) Under Confident-GNMax the votes of the most frequent label count as well, which one teacher
changes by one at most; a query is then in a cell of both.

Source: docs/theory.md, Theorem 12.4.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Array, IntArray
from dpcalc.errors import InputError, UnsupportedError, require_positive
from dpcalc.losses.likely_outcome import MIN_MASS
from dpcalc.mechanisms.pate import Aggregation, ConfidentGNMax, Votes
from dpcalc.numerics.special import normal_quantile_array
from dpcalc.planner.pate import data_independent_guarantee, epsilon_by_order

_CELLS_PER_VOTE = 4
"""Grid points of the lead for one vote; leads are rounded down to them, so fewer only make the divergence larger."""
_LEAD_REACH = 2 * _CELLS_PER_VOTE + 1
"""Cells by which one teacher moves a lead: two votes, and one cell more for round-off."""
_MAX_CELLS = 2_000_000
"""Largest grid of leads and top votes: 16 MB an array, of which there are about ten at a time."""
_FAILURE_SHARE = 0.1
"""Share of delta that each of the two noisy bounds may fail with; the rest is left for the epsilon."""
_COST_SHARE, _MAX_AIM, _MAX_LOG_CHANGE = 0.1, 5.0, 0.15
"""Defaults of `release_terms`: the share of the epsilon aimed at that the release itself costs; the largest epsilon
aimed at, since above it the noise hardly matters; the deviation of the noise on the log of the sensitivity."""


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """Parameters of a sanitised release; to be chosen without looking at the votes.

    Attributes:
        order: Renyi order of the analysis, > 1.
        smoothness: beta of the smooth sensitivity, > 0: the largest change of its logarithm by one teacher.
        noise: standard deviation of both noises in sensitivities, > 0.
    """

    order: float
    smoothness: float
    noise: float

    def __post_init__(self) -> None:
        """Raise InputError for parameters out of range."""
        if not (math.isfinite(self.order) and self.order > 1):
            raise InputError(f"order: expected a finite number > 1, got {self.order!r}")
        require_positive("beta", self.smoothness)
        require_positive("noise of the release", self.noise)

    @property
    def cost(self) -> float:
        """Renyi divergence, at the order, of the two numbers that are released."""
        return self.order / self.noise**2


@dataclass(frozen=True, kw_only=True)
class SanitisedEpsilon:
    """A data-dependent epsilon that may be published.

    Attributes:
        epsilon: upper bound for the labels and this number together, at delta.
        delta: in (0, 1).
        terms: parameters of the release.
        spread: standard deviation of the noise in epsilon, public as well.
    """

    epsilon: float
    delta: float
    terms: ReleaseTerms
    spread: float


def release_terms(aggregation: Aggregation, queries: int, *, delta: float, target: float | None) -> ReleaseTerms:
    """Choose order, smoothness, noise so that releasing costs a tenth of `target` (None: data-independent one, <= 5).

    Args:
        aggregation: with its noise.
        queries: their number, >= 0.
        delta: in (0, 1).
        target: epsilon to aim at, > 0; None for the data-independent one, at most 5.
    """
    # At this order the term log(1/delta) / (order - 1) is half of the epsilon aimed at; the noise costs a tenth of it.
    aim = target or min(data_independent_guarantee(aggregation, queries, delta=delta).epsilon, _MAX_AIM)
    order = 1 + 2 * -math.log(delta) / aim
    noise = math.sqrt(order / (_COST_SHARE * aim))
    return ReleaseTerms(order=order, smoothness=_MAX_LOG_CHANGE / noise, noise=noise)


def draw_sanitised_epsilon(
    aggregation: Aggregation, votes: Votes, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> SanitisedEpsilon:
    """Draw a noisy upper bound on the data-dependent epsilon, which may be published; each draw costs again.

    With f(D) the divergence of the labels, S(D) its smooth sensitivity, Z_1, Z_2 standard normal and c the value that Z
    exceeds with probability delta/10, B = S(D) e^{beta noise (Z_1 + c)} and U = f(D) + noise B (Z_2 + c) are released.
    At order a, B costs a / (2 noise^2), since log S changes by beta at most. B >= S(D) and U >= f(D) but for delta/10
    each; then f changes by at most B, so that U costs as much again, and the labels cost at most U. A user who
    publishes only if the epsilon drawn here keeps to a target that was fixed before is (target, delta)-DP with all that
    is published.

    Args:
        aggregation: with its noise.
        votes: of the teachers.
        terms: chosen without looking at the votes.
        delta: in (0, 1).
        rng: source of the noise; its seed must stay secret.

    Raises:
        UnsupportedError: more teachers under Confident-GNMax than the grid has room for.

    References:
        Papernot et al. 2018 (1802.08908v1), appendix B, for the smooth sensitivity; Redberg, Zhu, Wang 2023
        (2301.00301v1), Algorithm 3, for the noisy logarithm. (Theorem 23 of the former scales the noise by S(D) itself;
        the divergence it states is too small for orders above 1/(4 beta), see the tests.)
    """
    divergences, cells = _divergence_grid(aggregation, votes, terms.order)
    sensitivity = _smooth_sensitivity(divergences, cells, terms.smoothness)
    return _add_noise(float(divergences[tuple(cells)].sum()), sensitivity, terms, delta=delta, rng=rng)


def _add_noise(
    divergence: float, sensitivity: float, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> SanitisedEpsilon:
    """Draw the noisy sensitivity and with it the noisy divergence; return that plus its cost as epsilon.

    Args:
        divergence: f(D), the Renyi divergence of all labels at the order.
        sensitivity: S(D), its smooth sensitivity.
        terms: parameters of the release.
        delta: in (0, 1).
        rng: source of the noise.
    """
    # Both noises are shifted upwards by the quantile, so that each number is too small with probability delta/10 only.
    quantile = -float(normal_quantile_array(np.array([math.log(_FAILURE_SHARE * delta)]))[0])
    # The noise on the logarithm of the sensitivity makes the scale of the other noise public.
    first, second = (float(z) for z in rng.standard_normal(2))
    scale = terms.noise * sensitivity * math.exp(terms.smoothness * terms.noise * (first + quantile))
    released = max(0.0, divergence + scale * (second + quantile))
    z = np.array([terms.order - 1])
    epsilon = epsilon_by_order(z * (released + terms.cost), z, delta=(1 - 2 * _FAILURE_SHARE) * delta)
    return SanitisedEpsilon(epsilon=max(0.0, float(epsilon[0])), delta=delta, terms=terms, spread=scale)


def _divergence_grid(aggregation: Aggregation, votes: Votes, order: float) -> tuple[Array, IntArray]:
    """Return (one query's Renyi divergence by lead in quarter votes and top votes, each query's cell in it).

    Leads are 0, 1/4, 1/2, ..., those of queries rounded down. The top votes have an axis of length 1 where they do not
    count.

    Returns:
        (upper bounds on the divergence, not increasing in the lead, shape (leads, tops); indices of the queries' cells,
        shape (2, queries)).
    """
    leads = np.arange(votes.teachers * _CELLS_PER_VOTE + 1) / _CELLS_PER_VOTE
    rivals = votes.labels - 1
    overtake = aggregation.overtake_probability(leads)
    # Leads at which overtaking is less likely than the smallest probability in use share the last cell.
    overtake = overtake[: max(1, int((overtake > MIN_MASS).sum()))]
    has_check = isinstance(aggregation, ConfidentGNMax)
    tops = np.arange(votes.teachers + 1 if has_check else 1)
    if overtake.size * tops.size > _MAX_CELLS:
        max_teachers = math.isqrt(_MAX_CELLS // _CELLS_PER_VOTE)
        raise UnsupportedError(
            f"sanitised cost: expected at most {max_teachers} teachers whose votes are checked, got {votes.teachers}"
        )
    other_wins = np.minimum(rivals * np.repeat(overtake, tops.size), votes.max_other_wins)
    ahead, _ = aggregation.log_moments(other_wins, np.tile(tops, overtake.size), np.array([order - 1]))
    # A smaller lead may not cost less, or rounding the lead down would be no upper bound.
    divergences = np.maximum.accumulate(ahead.reshape(overtake.size, tops.size)[::-1])[::-1] / (order - 1)
    # The lead of a query is the one at which equal rivals win as likely as its union bound says.
    per_rival = votes.union_bound(aggregation.overtake_probability(np.arange(votes.teachers + 1.0))) / rivals
    cells = np.searchsorted(-overtake, -np.maximum(per_rival, MIN_MASS), side="right") - 1
    top_cells = votes.top if has_check else np.zeros_like(cells)
    return divergences, np.stack([np.clip(cells, 0, overtake.size - 1), top_cells])


def _smooth_sensitivity(divergences: Array, cells: IntArray, smoothness: float) -> float:
    """Return max over d >= 0 of e^{-smoothness d} * (change of the sum by one teacher after d others changed).

    Args:
        divergences: by lead and top votes.
        cells: of the queries, shape (2, queries).
        smoothness: beta, > 0.
    """
    queries = np.zeros(divergences.shape)
    np.add.at(queries, tuple(cells), 1)
    # Largest rise and largest fall within reach of one teacher, for each cell.
    changes = np.maximum(_max_of_neighbours(divergences) - divergences, divergences + _max_of_neighbours(-divergences))
    bound, largest, distance = float(queries.sum() * changes.max()), 0.0, 0
    while True:  # until no larger distance can count more
        largest = max(largest, math.exp(-smoothness * distance) * float((queries * changes).sum()))
        distance += 1
        if math.exp(-smoothness * distance) * bound <= largest:
            return largest
        # After one more teacher a query may be in any cell within reach of those before.
        widened = _max_of_neighbours(changes)
        if (widened == changes).all():
            return largest
        changes = widened


def _max_of_neighbours(values: Array) -> Array:
    """Return for each cell the largest value within 9 cells of the lead and one top vote: one teacher's reach."""
    return _sliding_maximum(_sliding_maximum(values, _LEAD_REACH).T, 1).T


def _sliding_maximum(values: Array, reach: int) -> Array:
    """Return for each row the elementwise maximum over the rows at a distance of at most `reach`; same shape."""
    # Windows grow to the full size by maxima of two overlapping smaller ones, so that it takes log2(reach) passes.
    maxima, size, full_size = np.pad(values, ((reach, reach), (0, 0)), mode="edge"), 1, 2 * reach + 1
    while size < full_size:
        step = min(size, full_size - size)
        maxima, size = np.maximum(maxima[:-step], maxima[step:]), size + step
    return maxima
