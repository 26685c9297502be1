"""All epsilons of one PATE ensemble in one call, and the numbers that the published analyses print for it."""

import math

import numpy as np

from dpcalc.arrays import Array, IntArray
from dpcalc.errors import InputError, UnsupportedError, require_positive
from dpcalc.guarantee import Guarantee, Kind, Row
from dpcalc.losses.rdp_curve import MIN_MASS
from dpcalc.mechanisms.pate import Aggregation, ConfidentGNMax, GNMax, LNMax, Votes, other_wins_bound
from dpcalc.numerics.special import normal_quantile_array
from dpcalc.planner.pate import (
    DataDependentResult,
    data_dependent_guarantee,
    data_independent_guarantee,
    epsilon_by_order,
    max_queries,
    max_queries_by_votes,
    min_noise,
)
from dpcalc.records import dataclass

# A data-dependent epsilon of PATE that may be published: noise as large as the smooth sensitivity, rounded up.
#
# Only the lead of a query counts: the lead at which `labels - 1` equally strong rivals together would win as likely as
# the union bound says. One teacher moves it by two votes at most (ours): with h(lead) the probability that one rival
# wins, the map y -> h(h^-1(y) - 2) is concave, because the density of the difference of two log-concave noises is
# log-concave and so h'(x - 2) / h'(x) rises with x; by Jensen's inequality the rivals' probability after the move, at
# most sum h(lead_j - 2), is no larger than that of equal rivals. (Papernot et al. 2018, Propositions 18 and 19, have
# this for Gaussian noise.) Under Confident-GNMax the votes of the most frequent label count as well, which one teacher
# changes by one at most; a query is then in a cell of both.
#
# Source: docs/theory.md, Theorem 12.4.

_CELLS_PER_VOTE = 4
"""Grid points of the lead for one vote; leads are rounded down to them, so fewer only make the divergence larger."""
_LEAD_REACH = 2 * _CELLS_PER_VOTE + 1
"""Cells by which one teacher moves a lead: two votes, and one cell more for round-off."""
_MAX_CELLS = 2_000_000
"""Largest grid of leads and top votes: 16 MB an array, of which there are about ten at a time."""
_FAILURE_SHARE = 0.1
"""Share of delta that each of the two noisy bounds may fail with; the rest is left for the epsilon."""
_COST_SHARE, _MAX_TARGET, _LOG_DEVIATION = 0.1, 5.0, 0.15
"""Defaults of a release: its share of the epsilon aimed at; the largest epsilon aimed at without a target, since above
it the noise hardly matters; the deviation of the noise on the log of the sensitivity."""


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


def default_release_target(aggregation: Aggregation, queries: int, *, delta: float) -> float:
    """Return the data-independent epsilon, at most 5; InputError if it is 0, which leaves a release nothing to spend.

    Args:
        aggregation: with its noise.
        queries: their number, >= 0.
        delta: in (0, 1).
    """
    epsilon = data_independent_guarantee(aggregation, queries, delta=delta).epsilon
    if not epsilon:
        raise InputError("--sanitise: expected a data-independent epsilon above 0, got 0; publish that one")
    return min(epsilon, _MAX_TARGET)


def release_terms(target: float, *, delta: float) -> ReleaseTerms:
    """Return terms by which a release costs a tenth of the target and log(1/delta) / (order - 1) is half of it.

    Args:
        target: epsilon to aim at, > 0, chosen without looking at the votes.
        delta: in (0, 1).
    """
    order = 1 + 2 * -math.log(delta) / target
    noise = math.sqrt(order / (_COST_SHARE * target))
    return ReleaseTerms(order=order, smoothness=_LOG_DEVIATION / noise, noise=noise)


def draw_sanitised_epsilon(
    aggregation: Aggregation, votes: Votes, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> SanitisedEpsilon:
    """Draw a data-dependent epsilon that covers its own release; publish it once, since each draw costs.

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
    divergence = float(divergences[tuple(cells)].sum())
    noisy, deviation = _noisy_divergence(divergence, sensitivity, terms, delta=delta, rng=rng)
    return _epsilon_of_release(noisy, deviation, terms, delta=delta)


def _noisy_divergence(
    divergence: float, sensitivity: float, terms: ReleaseTerms, *, delta: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Draw (divergence plus noise, at least 0; deviation of that noise), each too low with probability delta/10.

    Args:
        divergence: f(D), the Renyi divergence of all labels at the order.
        sensitivity: S(D), its smooth sensitivity.
        terms: their `noise` is the deviation in sensitivities, and `smoothness` times it that of the log of a draw.
        delta: in (0, 1).
        rng: source of the noise.
    """
    # Both noises are shifted upwards by the quantile, so that each number is too small with probability delta/10 only.
    quantile = -float(normal_quantile_array(np.array([math.log(_FAILURE_SHARE * delta)]))[0])
    # The noise on the logarithm of the sensitivity makes the scale of the other noise public.
    first, second = (float(z) for z in rng.standard_normal(2))
    deviation = terms.noise * sensitivity * math.exp(terms.smoothness * terms.noise * (first + quantile))
    return max(0.0, divergence + deviation * (second + quantile)), deviation


def _epsilon_of_release(
    noisy_divergence: float, spread: float, terms: ReleaseTerms, *, delta: float
) -> SanitisedEpsilon:
    """Return the epsilon >= 0 of labels and release together, at 0.8 delta since both draws may fail with the rest."""
    z = np.array([terms.order - 1])
    epsilon = epsilon_by_order(z * (noisy_divergence + terms.cost), z, delta=(1 - 2 * _FAILURE_SHARE) * delta)
    return SanitisedEpsilon(epsilon=max(0.0, float(epsilon[0])), delta=delta, terms=terms, spread=spread)


def _divergence_grid(aggregation: Aggregation, votes: Votes, order: float) -> tuple[Array, IntArray]:
    """Return upper divergences by lead and top votes, and (lead, top) indices of the queries, shape (2, queries)."""
    overtake = _overtake_by_lead(aggregation, votes.teachers)
    lead_cells = _lead_cells(aggregation, votes, overtake)
    if isinstance(aggregation, ConfidentGNMax):
        _require_room(overtake.size, votes.teachers)
        top_count, top_cells = votes.teachers + 1, votes.top
    else:  # the top votes do not count: they share one cell
        top_count, top_cells = 1, np.zeros_like(lead_cells)
    return _divergences_by_cell(aggregation, votes, overtake, top_count, order), np.stack([lead_cells, top_cells])


def _require_room(leads: int, teachers: int) -> None:
    """Raise UnsupportedError if a grid of `leads` times `teachers` + 1 top votes has over 2,000,000 cells."""
    if leads * (teachers + 1) > _MAX_CELLS:
        max_teachers = math.isqrt(_MAX_CELLS // _CELLS_PER_VOTE)
        raise UnsupportedError(
            f"sanitised cost: expected at most {max_teachers} teachers whose votes are checked, got {teachers}"
        )


def _divergences_by_cell(
    aggregation: Aggregation, votes: Votes, overtake_by_lead: Array, top_count: int, order: float
) -> Array:
    """Return upper bounds on a query's divergence, shape (leads, `top_count`), that do not rise with the lead."""
    leads = overtake_by_lead.size
    other_wins = np.minimum((votes.labels - 1) * np.repeat(overtake_by_lead, top_count), votes.max_other_wins)
    ahead, _ = aggregation.log_moments(other_wins, np.tile(np.arange(top_count), leads), np.array([order - 1]))
    # A smaller lead may not cost less, or rounding the lead down would be no upper bound.
    return np.maximum.accumulate(ahead.reshape(leads, top_count)[::-1])[::-1] / (order - 1)


def _overtake_by_lead(aggregation: Aggregation, teachers: int) -> Array:
    """Return the probabilities that a rival overtakes leads 0, 1/4, ..., `teachers`: at least one, those > MIN_MASS."""
    leads = np.arange(teachers * _CELLS_PER_VOTE + 1) / _CELLS_PER_VOTE
    overtake = aggregation.overtake_probability(leads)
    # Leads at which overtaking is less likely than the smallest probability in use share the last cell.
    return overtake[: max(1, int((overtake > MIN_MASS).sum()))]


def _lead_cells(aggregation: Aggregation, votes: Votes, overtake_by_lead: Array) -> IntArray:
    """Return each query's index of the lead, rounded down, at which labels - 1 equal rivals have its union bound."""
    per_rival = votes.union_bound(aggregation.overtake_probability(np.arange(votes.teachers + 1.0))) / (
        votes.labels - 1
    )
    cells = np.searchsorted(-overtake_by_lead, -np.maximum(per_rival, MIN_MASS), side="right") - 1
    return np.clip(cells, 0, overtake_by_lead.size - 1)


def _smooth_sensitivity(divergences: Array, cells: IntArray, smoothness: float) -> float:
    """Return the largest change of the summed divergence by one teacher, times e^-beta for each one changed before.

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


# The published analyses of Papernot et al. 2017 and 2018.


LNMAX_MOMENTS = np.arange(1.0, 9.0)
"""The moments of the published LNMax analysis."""
GNMAX_ORDERS = np.concatenate([np.arange(2.0, 100.0, 0.5), np.geomspace(100.0, 500.0, 100)])
"""Renyi orders of the published GNMax analysis."""


def published_rows(aggregation: Aggregation, votes: Votes, *, delta: float) -> tuple[Row, ...]:
    """Return the published data-independent and data-dependent epsilon, the latter not valid; () for Confident-GNMax.

    Args:
        aggregation: with its noise.
        votes: of the teachers.
        delta: in (0, 1).

    Returns:
        Epsilons as published. The data-dependent one is marked as not valid: it covers one direction only, from these
        votes to those of a neighbour.
    """
    other_wins = other_wins_bound(aggregation, votes)
    match aggregation:
        case LNMax(gamma=gamma):
            moments = LNMAX_MOMENTS
            independent = votes.queries * pure_dp_log_moments(2 * gamma, moments)
            dependent = lnmax_log_moments(other_wins, gamma, moments).sum(0)
            return _rows_by_tail_bound("Papernot et al. 2017", moments, independent, dependent, delta=delta)
        case GNMax(sigma=sigma):
            moments = GNMAX_ORDERS - 1
            independent = votes.queries * moments * (moments + 1) / sigma**2
            dependent = gnmax_log_moments(other_wins, sigma, moments).sum(0)
            return _rows_by_tail_bound("Papernot et al. 2018", moments, independent, dependent, delta=delta)
        case _:
            return ()


def _rows_by_tail_bound(
    source: str, moments: Array, independent: Array, dependent: Array, *, delta: float
) -> tuple[Row, Row]:
    """Return rows of the epsilons that both total log moments have at delta; the data-dependent one is not valid."""
    # The tail bound of both papers: epsilon = min over l of (log moment - log delta) / l.
    by_number, by_votes = (float(((total - math.log(delta)) / moments).min()) for total in (independent, dependent))
    note = "one direction only: from these votes to a neighbour's"
    return (
        Row(method=source, bound="data-independent", epsilon=by_number, kind=Kind.AS_PUBLISHED, valid=True),
        Row(method=source, bound="data-dependent", epsilon=by_votes, kind=Kind.AS_PUBLISHED, valid=False, note=note),
    )


def pure_dp_log_moments(epsilon: float, moments: Array) -> Array:
    """Return the published log moments of an epsilon-DP step, min(epsilon l, epsilon^2 l (l + 1) / 2).

    Args:
        epsilon: of the step, > 0.
        moments: l > 0, any shape.

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 2.
    """
    return np.minimum(epsilon * moments, epsilon**2 * moments * (moments + 1) / 2)


def lnmax_log_moments(other_wins: Array, gamma: float, moments: Array) -> Array:
    """Return LNMax's published log moments, shape (queries, moments), at most those of 2 gamma-DP.

    Args:
        other_wins: upper bound on the probability that another than the most frequent label wins, shape (queries,).
        gamma: inverse scale of the noise, > 0.
        moments: l > 0, shape (moments,).

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 3; the data-independent bound where that is smaller.
    """
    # The condition of Theorem 3; where it fails q is replaced by 0, which is not used, to keep logarithms finite.
    q, x = other_wins[:, None], 2 * gamma
    applies = q < math.expm1(x) / math.expm1(2 * x)
    q = np.where(applies, q, 0.0)
    top_wins = (moments + 1) * np.log1p(-q) - moments * np.log1p(-q * math.exp(x))
    with np.errstate(divide="ignore"):
        dependent = np.logaddexp(top_wins, np.log(q) + x * moments)
    return np.minimum(np.where(applies, dependent, np.inf), pure_dp_log_moments(x, moments))


def gnmax_log_moments(other_wins: Array, sigma: float, moments: Array) -> Array:
    """Return GNMax's published log moments, shape (queries, moments), at most those of the Gaussian.

    Args:
        other_wins: upper bound on the probability that another than the most frequent label wins, shape (queries,).
        sigma: standard deviation of the noise in votes, > 0.
        moments: Renyi order minus 1, > 0, shape (moments,).

    References:
        Papernot et al. 2018 (1802.08908v1), Theorem 6, Propositions 8 and 10.
    """
    # One teacher changes two counts by one, under noise of deviation sigma: a Gaussian step of distance sqrt(2).
    independent = moments * (moments + 1) / sigma**2
    log_q = np.log(np.maximum(other_wins, 1e-300))[:, None]
    return np.minimum(_gnmax_dependent_log_moments(log_q, sigma, moments), independent)


def _gnmax_dependent_log_moments(log_q: Array, sigma: float, moments: Array) -> Array:
    """Return the log moments of Theorem 6, shape (queries, moments), for q = e^log_q; inf where it does not apply."""
    # The orders of Proposition 10.
    mu_2 = np.maximum(sigma * np.sqrt(-log_q), 1 + 1e-9)
    mu_1 = mu_2 + 1
    rdp_1, rdp_2 = mu_1 / sigma**2, mu_2 / sigma**2
    max_log_q = (mu_2 - 1) * rdp_2 - mu_2 * (np.log(mu_1 / (mu_1 - 1)) + np.log(mu_2 / (mu_2 - 1)))
    # The conditions of Theorem 6: mu_1 is at least the order, q is small enough, and mu_2 is above 1.
    applies = (mu_1 >= moments + 1) & (mu_2 > 1 + 1e-9) & (log_q <= max_log_q) & (-log_q > rdp_2)
    log_top_wins = np.log1p(-np.exp(log_q))
    with np.errstate(invalid="ignore", divide="ignore"):
        # A^(order - 1) and B^(order - 1) of Theorem 6, in log space.
        inner = np.log1p(-np.exp(np.minimum((log_q + rdp_2) * (mu_2 - 1) / mu_2, -1e-300)))
        top_wins = log_top_wins + moments * (log_top_wins - inner)
        other = log_q + moments * (rdp_1 - log_q / (mu_1 - 1))
        return np.where(applies, np.logaddexp(top_wins, other), np.inf)


# All results for one ensemble.


@dataclass(frozen=True, kw_only=True)
class PateQuestion:
    """An ensemble, and the queries, votes and target to evaluate.

    Attributes:
        aggregation: the rule by which votes become a label, with its noise.
        queries: number of queries that are put to the teachers, >= 0.
        votes: of these queries, or None where only their number is known.
        delta: in (0, 1).
        target: an epsilon, > 0, that shall not be exceeded, or None.
    """

    aggregation: Aggregation
    queries: int
    votes: Votes | None
    delta: float
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class PateTarget:
    """The queries and the noise for which epsilon stays within a target.

    Attributes:
        max_queries: queries whatever the votes are.
        max_queries_by_votes: queries with these votes, counted from the first, or None without votes; itself private.
        least_noise: the aggregation with the least noise for all queries whatever the votes are.
    """

    max_queries: int
    max_queries_by_votes: int | None
    least_noise: Aggregation


@dataclass(frozen=True, kw_only=True)
class PateAnswer:
    """All results for one ensemble; the guarantees are upper bounds.

    Attributes:
        question: the ensemble and what was to be evaluated.
        by_number: the data-independent guarantee, which may be published.
        by_votes: the data-dependent guarantee, or None without votes; itself private.
        published: the numbers of the papers' analyses, none without votes.
        target: queries and noise within the target, or None without one.
        sanitised: a data-dependent epsilon that may be published, or None if none was drawn.
    """

    question: PateQuestion
    by_number: Guarantee
    by_votes: DataDependentResult | None
    published: tuple[Row, ...]
    target: PateTarget | None
    sanitised: SanitisedEpsilon | None


def evaluate_pate(question: PateQuestion, *, rng: np.random.Generator | None = None) -> PateAnswer:
    """Return all results for an ensemble, None where votes, target or `rng` lack; InputError for `rng` without votes.

    Args:
        question: the ensemble and what to evaluate.
        rng: secret random numbers for an epsilon that may be published; None for no such epsilon.

    Raises:
        InputError: a target or delta out of range, or random numbers without votes.
    """
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    sanitised = None if rng is None else _sanitised_epsilon(question, rng)
    return PateAnswer(
        question=question,
        by_number=data_independent_guarantee(aggregation, question.queries, delta=delta),
        by_votes=None if votes is None else data_dependent_guarantee(aggregation, votes, delta=delta),
        published=() if votes is None else published_rows(aggregation, votes, delta=delta),
        target=None if question.target is None else _within_target(question, question.target),
        sanitised=sanitised,
    )


def _sanitised_epsilon(question: PateQuestion, rng: np.random.Generator) -> SanitisedEpsilon:
    """Draw an epsilon that may be published, on terms that do not depend on the votes; InputError without votes."""
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    if votes is None:
        raise InputError("--sanitise: expected votes, whose cost is made public, got none")
    # Terms that depended on the votes would be private themselves.
    target = question.target or default_release_target(aggregation, question.queries, delta=delta)
    terms = release_terms(target, delta=delta)
    return draw_sanitised_epsilon(aggregation, votes, terms, delta=delta, rng=rng)


def _within_target(question: PateQuestion, target: float) -> PateTarget:
    """Return how many queries, for any votes and for these, and how little noise keep to the target."""
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    return PateTarget(
        max_queries=max_queries(aggregation, target=target, delta=delta),
        max_queries_by_votes=None
        if votes is None
        else max_queries_by_votes(aggregation, votes, target=target, delta=delta),
        least_noise=min_noise(aggregation, question.queries, target=target, delta=delta),
    )
