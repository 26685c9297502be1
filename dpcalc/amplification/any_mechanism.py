"""Steps, whole phases, groups and passes of any mechanism but the Gaussian one, from the one-step bound (K*).

Noise on a sum takes the bound of the phase in clip norms, in which draws made anew in every step are hidden. Any
other mechanism hides such draws for one unit, and for several reveals those above the protected level. Draws that are
held for several steps are revealed, the protected level's own included: where such a draw holds any protected unit,
it is taken to hold all that it can. A promise for batches of one size covers no batch that lacks a unit: there the
draws that make batches of several sizes are revealed, or the number that a Poisson draw takes.

In a pass over shuffled units its batch differs and, where a unit is removed, the last one. The pass of a group is the
chain of passes of one unit, in frames that have lost up to k - 1 units.

Source: docs/theory.md, Definition 8.0, Theorem 8.1, Lemma 8.2, Theorem 8.6, Theorem 8.7, Theorem 8.8 and
Theorem 11.4.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import takewhile
from math import prod

import numpy as np

from dpcalc.amplification.bound import (
    Average,
    Bound,
    CountPair,
    MissedBatch,
    Part,
    StepBound,
    revealed_count_distributions,
    unamplified,
    unit_count_bound,
)
from dpcalc.amplification.groups import Group
from dpcalc.amplification.mates import MatesAverage, merge_close_parts, with_few_parts
from dpcalc.amplification.phase import bound_with_redraws, native_bound, removal_paths
from dpcalc.amplification.random_contents import hidden_unit_bound
from dpcalc.amplification.schedule import (
    PhaseBound,
    allocated_steps,
    hidden_or_revealed,
    is_shortened,
    is_shuffled,
    repeated_loss,
    secret_pass_steps,
    shortened_pass_error,
    steps_under_draws,
    unamplified_phase,
)
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.atoms import (
    ALL_INFINITE,
    chain_of,
    comonotone_coupling,
    composed,
    from_first,
    from_second,
    glued,
    public_mixture,
    with_near_losses,
)
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import (
    LARGEST_ORDER,
    RdpCurve,
    Renyi,
    Steps,
    finite_points,
    fixed_size_upper,
    poisson_upper,
    repeated,
    together,
)
from dpcalc.mechanisms.additive import AdditiveNoise
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse, RdpTable
from dpcalc.mechanisms.kinds import BlackBox, Change, PairOnly, RdpOnly
from dpcalc.numerics import Array, log_fraction, log_sum_exp
from dpcalc.records import dataclass
from dpcalc.sampling.counts import binomial
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Poisson
from dpcalc.sampling.sums import coarsen_at_quantiles
from dpcalc.work import ELEMENT, SECOND, TURN, cached_with_cost, own_allowance, spend

# A mechanism of which only Renyi divergences are known
#
# Three bounds are computed at each order, and the smallest is taken: the average over the revealed number of members
# drawn, which holds at every order above 1, and the theorems for Poisson and for fixed-size draws, at whole orders.

_WHOLE_ORDERS = range(2, LARGEST_ORDER + 1)
_OTHER_ORDERS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, *(2.0**power for power in range(9, 24)))
"""Orders outside the theorems on draws; there only the average over a revealed draw is a bound."""
_SURE_ORDERS = (*_OTHER_ORDERS[:6], *map(float, range(2, 33)), *_OTHER_ORDERS[6:])
_MAX_CHANGES = 1000  # above, only the largest loss bounds a group: the chain takes time proportional to the changes
_MAX_FINE_CHANGES = 16  # up to which all orders of the mechanism are computed, above only a few


@cached_with_cost(128)
def step_divergences(mechanism: RdpOnly, bound: Bound) -> RdpCurve:
    """Return upper bounds on the Renyi divergences of one step; UnsupportedError if none is finite."""
    parts = len(bound.parts if isinstance(bound, Average) else getattr(bound, "missed", ())) or 1
    spend(4 * TURN * parts * (LARGEST_ORDER**2 / 2 + _MAX_FINE_CHANGES * len(mechanism.orders)))
    changes = bound.max_shift
    orders: Sequence[float] = mechanism.orders
    if changes <= _MAX_FINE_CHANGES:
        orders = _orders_after(changes, orders)
    elif bound.inclusion < 1:
        orders = _OTHER_ORDERS
    if bound.inclusion < 1:
        orders = sorted({*map(float, _WHOLE_ORDERS), *orders})
    return _curve(f"{mechanism!r} under {bound!r}", _step_divergence(mechanism, bound), orders, changes)


def chained_divergences(curves: Sequence[RdpCurve], links: int) -> RdpCurve:
    """Return upper bounds on the divergences of `links` changes that each cost the sum of `curves`."""
    orders = sorted({*_SURE_ORDERS, *_orders_after(links, [order for curve in curves for order, _ in curve.points])})
    rdp = partial(group_divergence, lambda at: sum(curve.rdp(at) for curve in curves), links)
    return _curve(f"{links} links of {curves!r}", rdp, orders, links)


def _orders_after(changes: int, orders: Iterable[float]) -> list[float]:
    """Return orders, and those at which the first and the last of several changes are read off at one of them."""
    more = {order for each in orders for order in (each / changes, (each + changes - 1) / changes) if order > 1}
    return sorted({*orders, *more})


def _curve(name: str, rdp: Renyi, orders: Sequence[float], changes: int) -> RdpCurve:
    """Return the curve of the divergences that are finite at these orders; UnsupportedError if none is."""
    points = finite_points(rdp, orders)
    if not points:
        raise UnsupportedError(
            f"mechanism: expected divergences at orders above {changes}, as many changes as a step can make at once, "
            "got none there; state more orders, or an epsilon"
        )
    return RdpCurve(name=name, points=points)


def _step_divergence(mechanism: RdpOnly, bound: Bound) -> Renyi:
    """Return a function from order to an upper bound on a step's divergence, at the best number of public misses."""
    match bound:
        case Average(parts=parts):
            several = [(_positive_float(chance), _step_divergence(mechanism, part)) for chance, part in parts]
            return lambda order: _public_mixture_divergence([(chance, part(order)) for chance, part in several], order)
        case StepBound():
            choices = [
                _divergence_with_public_misses(mechanism, bound, first) for first in range(max(1, len(bound.missed)))
            ]
            return lambda order: min(choice(order) for choice in choices)
        case CountPair():  # of a public H given H >= 1, amplified by Pr[H >= 1]
            shares = [(_positive_float(chance / bound.inclusion), h) for h, chance in bound.law if h]
            mixed = cache(
                lambda order: _public_mixture_divergence(
                    [(p, group_divergence(mechanism.rdp, bound.shift * h, order)) for p, h in shares], order
                )
            )
            theorem = _poisson_bound(mechanism, bound.max_shift)
            return partial(_subsampled_divergence, mixed, mixed, _positive_float(bound.inclusion), theorem)
        case _:
            raise TypeError("a pair of two random contents bounds Gaussian noise alone")


def _divergence_with_public_misses(mechanism: RdpOnly, bound: StepBound, public_misses: int) -> Renyi:
    """Return a function from order to an upper bound, with the first `public_misses` misses revealed, others hidden."""
    reached = 1 - sum((each.chance for each in bound.missed[:public_misses]), start=Fraction(0))
    hidden = [each for each in bound.missed[public_misses:] if each.chance]
    changes = max((bound.shift, *(max(each.distance, each.distance_swapped) for each in hidden)))
    farthest = cache(partial(group_divergence, mechanism.rdp, changes))
    if_drawn = cache(partial(group_divergence, mechanism.rdp, bound.shift))
    # Where all that is missed is the batch of D' without the unit, that of draws with which nobody is replaced holds.
    theorem = fixed_size_upper if any(each.distance_swapped for each in hidden) else _poisson_bound(mechanism, changes)
    rate = _positive_float(bound.inclusion / reached)
    return lambda order: _public_mixture_divergence(
        [(_positive_float(reached), _subsampled_divergence(if_drawn, farthest, rate, theorem, order))], order
    )


def _poisson_bound(mechanism: RdpOnly, changes: int) -> Callable[[Renyi, float, int], float]:
    """Return the theorem on draws with which nobody is replaced, without its factor 3 if odd moments are known."""
    signs = isinstance(mechanism, RdpTable) and mechanism.odd_moments == "nonnegative" and changes == 1
    return partial(poisson_upper, factor=1.0) if signs else poisson_upper


def _positive_float(chance: Fraction) -> float:
    """Return the probability as a float, at least the smallest positive one."""
    return max(float(chance), math.ulp(0.0))


def _subsampled_divergence(
    if_drawn: Renyi, farthest: Renyi, rate: float, theorem: Callable[[Renyi, float, int], float], order: float
) -> float:
    """Return an upper bound for a random draw, amplified by `theorem` at whole orders where that is smaller.

    `if_drawn` is between batches of D and D' that hold the unit, `farthest` between any of them and one that misses it.
    """
    if rate == 1:
        return if_drawn(order)
    revealed = _public_mixture_divergence([(rate, if_drawn(order))], order)
    if order not in _WHOLE_ORDERS or math.isinf(revealed):
        return revealed
    return min(revealed, max(0.0, theorem(farthest, rate, int(order))))


def group_divergence(rdp: Renyi, changes: int, order: float) -> float:
    """Return an upper bound on the divergence at one order after `changes` changes; at most `changes` * rdp(inf).

    By D_a(P || Q) <= k a / (k a - 1) D_b(P || R) + D_{k a}(R || Q) with b = (k a - 1) / (k - 1), for k - 1 changes from
    P to R and one from R to Q. No loss exceeds k times the largest, which is the bound above 1000 changes.

    Source: Bun, Steinke 2016 (1605.02065v1), Lemma 5.2.
    """
    if not changes:
        return 0.0
    max_loss = changes * rdp(math.inf)
    if changes == 1:
        return min(max_loss, rdp(order))
    if math.isinf(order) or changes > _MAX_CHANGES:
        return max_loss
    # The inequality is unrolled from k changes down to 1, then summed back up; the order of the part with fewer changes
    # falls towards 1 while that of the last single change stays far above, where the divergence must be known.
    steps: list[tuple[float, float]] = []  # (factor, divergence) of the last change, of the one before, ...
    for left in range(changes, 1, -1):
        far = left * order
        value = rdp(far)
        if math.isinf(value):
            return max_loss
        steps.append((far / (far - 1), value))
        order = (far - 1) / (left - 1)
    total = min(rdp(math.inf), rdp(order))
    for left, (factor, value) in zip(range(2, changes + 1), reversed(steps), strict=True):
        total = min(left * rdp(math.inf), factor * total + value)
    return total


def _public_mixture_divergence(parts: list[tuple[float, float]], order: float) -> float:
    """Return the divergence of a public mixture, in which missing probability releases nothing."""
    top = max((value for _, value in parts), default=0.0)
    if math.isinf(order) or math.isinf(top):
        return top
    # log(1 - sum p + sum p e^((a - 1) D)): by expm1 where that is near 0, relative to its largest term where it is
    # large.
    scale = (order - 1) * top
    if scale < 1:
        inside = math.fsum(chance * math.expm1((order - 1) * value) for chance, value in parts)
        return math.log1p(inside) / (order - 1)
    missed = max(0.0, 1 - math.fsum(chance for chance, _ in parts)) * math.exp(-scale)
    inside = missed + math.fsum(chance * math.exp((order - 1) * value - scale) for chance, value in parts)
    return top + math.log(inside) / (order - 1)


# (K*): a mechanism is known by its dominating pair
#
# A mechanism is known by its dominating pair `pair(d)` for two batches with d changes between them, the same in either
# order and growing with d. Noise on a sum counts changes in clip norms, any other mechanism in units. A one-step bound
# says how many changes there are and how likely. (K*) is the counterpart of (K); for Gaussian noise they are equal.
# Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 2.

Pairs = Callable[[int], Loss]
"""From a number of changes d >= 0 to a dominating pair; the same in either order, and never falling in d."""


_PositiveLosses = tuple[Array, Array, float]
"""(The finite losses > 0 of one direction P||Q, the log of the P mass of each, the P mass at loss infinity)."""


_LARGE = 600.0  # log ratio above which expm1 is not taken: e^709 overflows a float
_MOST_ODDS = Fraction(10**300)  # of being missed, as a float; fewer make a loss larger
_SMALL_GAP = 0.5  # |ratio - 1| below which its logarithm is log1p of the difference: no cancellation for tiny losses


def step_pair(bound: Bound, pairs: Pairs) -> Loss:
    """Return Loss with an upper bound on a step's loss D||D', whose `swapped` is one on D'||D.

    It holds at every real epsilon.

    Source: docs/theory.md, Theorem 8.1 and Theorem 2.6.
    """

    def near(changes: int) -> Loss:
        return with_near_losses(pairs(changes))

    match bound:
        case StepBound(inclusion=1):
            return pairs(bound.shift)
        case CountPair(law=((h, Fraction(numerator=1, denominator=1)),)):
            return pairs(bound.shift * h)
        case Average(parts=parts):
            return public_mixture([(float(chance), step_pair(part, pairs)) for chance, part in parts])
        case StepBound():
            own = _missed_side(bound, bound.distances, near)
            other = _missed_side(bound, bound.distances_swapped, lambda d: near(d).swapped)
        case CountPair():
            own, other = _count_sides(bound, near)
    # The losses > 0 of `own`, the negated ones of `other`, and all other mass at loss 0.
    ahead, against = (own[1], own[0]), (other[1], -other[0])
    return glued(ahead, against, infinity_mass=own[2], only_other=other[2])


def _missed_side(bound: StepBound, distances: Sequence[int], pairs: Pairs) -> _PositiveLosses:
    """Return the losses > 0 of (K*) in one direction, at their largest over joint laws of its likelihood ratios."""
    # There P is eta C + sum_j v_j M_j and Q is eta B + sum_j v_j M_j, with v_j missed and M_j at `distances`.
    # The ratios dM_j/dC and dB/dC are all taken as non-increasing functions of one uniform variable
    # (`comonotone_coupling`): no other joint law of ratios with these marginals has a larger expectation in (K*).
    log_eta = log_fraction(bound.inclusion)
    missed = [(v / bound.inclusion, d) for v, d in zip(bound.chances, distances, strict=True) if v]
    widths, (same, *others) = comonotone_coupling(
        [from_first(pairs(d)) for d in (bound.shift, *(d for _, d in missed))]
    )
    odds = [odd for odd, _ in missed]

    # Elementwise log dP/dC and the loss log dP/dQ. A small loss is taken from the difference 1 - dQ/dP, which is small
    # then; for a large one the difference would have lost dQ/dP. The share of C in P is not taken from its log: the log
    # of 1e8 has lost two digits of a loss as small as 1e-8.
    common = log_sum_exp([log_fraction(odd) - each for odd, each in zip(odds, others, strict=True)])
    log_p = np.logaddexp(0.0, common)
    with np.errstate(over="ignore"):
        terms = zip(odds, others, strict=True)
        shares = (float(odd if odd < _MOST_ODDS else _MOST_ODDS) * np.exp(-each) for odd, each in terms)
        gap: Array = -np.expm1(-np.maximum(same, -1.0)) / (1.0 + sum(shares, start=np.zeros(same.shape)))
    with np.errstate(divide="ignore"):
        near = -np.log1p(-np.minimum(gap, _SMALL_GAP))
        losses = np.where(gap < _SMALL_GAP, near, log_p - np.logaddexp(-same, common))
    above = losses > 0
    logs = widths[above] + log_eta + log_p[above]
    infinite = np.isinf(losses[above])
    return losses[above][~infinite], logs[~infinite], float(np.exp(logs[infinite]).sum())


def _count_sides(bound: CountPair, pairs: Pairs) -> tuple[_PositiveLosses, _PositiveLosses]:
    """Return upper bounds on the losses > 0 of D||D' and of D'||D, where D draws H members at random."""
    # Under H = 0 a mixture has the ratio sum_h Pr[H = h] Z_h; coupled large with large, which no coupling exceeds.
    law, move = dict(bound.law), bound.shift // 2 if bound.both_ways else bound.shift
    log_none = log_fraction(law.get(0, Fraction(0)))
    counts = [(chance, pairs(move * h)) for h, chance in law.items() if h]
    present, absent = ([from_second(pair) for _, pair in counts], [from_first(pair.swapped) for _, pair in counts])
    infinity_mass = math.fsum(float(chance) * pair.infinity_mass for chance, pair in counts)
    if bound.both_ways:
        # Replaced members move D and D' apart: half of the shift lies on either side of H = 0, and where the ratios of
        # one mixture rise those of the other fall.
        widths, ratios = comonotone_coupling(present + absent)
        own = _log_mixture(counts, log_none, ratios[: len(counts)])
        other = _log_mixture(counts, log_none, [-ratio for ratio in ratios[len(counts) :]])
        infinite = (other == -np.inf) & (own > -np.inf)
        losses = np.subtract(own, other, out=np.zeros(own.shape), where=np.isfinite(own) & np.isfinite(other))
        above = losses > 0
        infinity_mass += float(np.exp((widths + own)[infinite]).sum())
        side = losses[above], (widths + own)[above], infinity_mass
        return side, side

    widths, ratios = comonotone_coupling(present)  # D' has none of the members
    losses = _log_mixture(counts, log_none, ratios)
    above = losses > 0
    ahead = losses[above], widths[above] + losses[above], infinity_mass
    widths, ratios = comonotone_coupling(absent)
    losses = -_log_mixture(counts, log_none, [-ratio for ratio in ratios])
    above, infinite = (losses > 0) & (losses < np.inf), losses == np.inf
    return ahead, (losses[above], widths[above], float(np.exp(widths[infinite]).sum()))


def _log_mixture(counts: list[tuple[Fraction, Loss]], log_none: float, log_ratios: list[Array]) -> Array:
    """Return log(Pr[H = 0] + sum_h Pr[H = h] Z_h) elementwise, from log Z_h; without cancellation where near 0."""
    spend(6 * ELEMENT * len(log_ratios) * log_ratios[0].size)
    gap, largest = np.zeros(log_ratios[0].shape), np.full(log_ratios[0].shape, -np.inf)
    for (chance, _), log_ratio in zip(counts, log_ratios, strict=True):
        # not by way of a log: that of 1e-8 has lost two digits of a loss that is as small
        gap += float(chance) * np.expm1(np.minimum(log_ratio, _LARGE))
        np.maximum(largest, log_ratio, out=largest)
    # Near 1 the log of the sum would lose the digits of a small loss: there the mixture of the differences Z_h - 1.
    near = (np.abs(gap) < _SMALL_GAP) & (largest < _LARGE)
    parts = [log_fraction(chance) + log_ratio for (chance, _), log_ratio in zip(counts, log_ratios, strict=True)]
    mixed = log_sum_exp([*parts, np.full(gap.shape, log_none)])
    return np.where(near, np.log1p(np.where(near, gap, 0.0)), mixed)


# Phases

_LARGEST, _ROUNDED = 700.0, 1e-12  # largest exponent of a float; relative margin for the error of a few operations
_UNITS_OF_A_PAIR = 0.004 * SECOND  # of work: some thousand losses of Laplace noise, in both directions
_WORK_OF_FEW_PARTS = 0.1 * SECOND  # where an average costs too much: for one part of each kind
_MAX_CENTERS = 100  # of an average over the mates, each of which is a pair of thousands of losses
# Quantiles, in deviations of a normal variable, of the number that a Poisson draw takes: each is a pair of a step; of
# Renyi divergences, which take long, few.
_NUMBERS = (*(0.25 * i for i in range(-12, 25)), 7.0, 8.5, 10.0, 12.0, 15.0)
_FEW_NUMBERS = (-1.0, 0.0, 1.0, 2.0, 4.0, 7.0, 12.0)
_MAX_JOINT_RESPONSES = 2048  # randomized responses with exact joint losses; more are composed of halves


@dataclass(frozen=True, kw_only=True)
class BlackBoxSteps:
    """The steps of one phase whose mechanism `black_box_refusal` accepts, and what is protected."""

    mechanism: BlackBox  # what each step applies to its batch
    hierarchy: Hierarchy  # levels and schemes
    path: Path  # the path to the protected units
    clip: int  # clipping level, 0 to depth
    adjacency: Adjacency  # relation between D and D'
    group: Group  # the protected units and their placement; one unit where links lead from one to the next
    removed: Group  # all protected units and their placement
    noise: PhaseBound  # the bound of the phase in clip norms, which applies if the mechanism adds noise to a sum
    number: int  # number of steps, >= 0
    max_mates: int  # draws of the mates that may be told apart; 0 if many units share the work
    change: Change  # what one change is to a mechanism that counts units

    @property
    def phase_bound(self) -> PhaseBound:
        """The bound of the phase: for noise on a sum `noise`, in clip norms, else in changes of the promise."""
        if isinstance(self.mechanism, AdditiveNoise):
            return self.noise
        if self.noise.secret:  # of level 1 alone: a step surely holds the unit, or another one in its place
            exchange = StepBound.sure(self.change.exchange)
            own = StepBound.sure(1) if self.adjacency is Adjacency.ZERO_OUT else exchange
            return replace(self.noise, bound=own, mates=exchange)
        if self.hierarchy.episodes is not None:
            return PhaseBound(bound=self._step_bound(self.path))
        path = self.path
        if self._is_number_told:  # before it is cut
            poisson = Poisson(probability=path.schemes[-1].probability)
            path = replace(path, schemes=(*path.schemes[:-1], poisson))
        paths: tuple[Path, ...] = (path,)
        if self.noise.later:
            # A chain of Renyi curves knows one curve alone: that of the smallest frame, where somebody still stands in.
            has_one_curve = isinstance(self.mechanism, RdpOnly)
            group = Group(size=len(self.noise.links)) if has_one_curve else self.removed
            paths = removal_paths(self.hierarchy, path, self.adjacency, group)[-1 if has_one_curve else 0 :]
        drawn = bound_with_redraws(self.hierarchy, paths[0], self.group, self._step_bound)
        return replace(
            self.noise,
            bound=drawn.bound,
            later=tuple(self._step_bound(each) for each in paths[1:]),
            moves=(1,),
            hold=drawn.hold,
            revealed=drawn.revealed,
        )

    def _step_bound(self, drawn: Path) -> Bound:
        """Return a step's bound in changes, with the draws above the unit hidden where they may be, else public.

        Source: docs/theory.md, Theorem 8.1, Theorem 8.7 and Theorem 8.8.
        """
        hierarchy, exchange, covers_missing = self.hierarchy, self.change.exchange, self.change.covers_missing
        unit, schemes = len(drawn.counts), drawn.schemes
        level, above = hierarchy.level(unit), hierarchy.levels[: unit - 1]

        # Draws may be hidden where each step draws a single unit anew and can miss an ancestor, if they are fixed,
        # Poisson or `all`. A promise for batches of one size hides them if all batches have it: all frames of a level
        # are equal, drawn by `fixed` or `all`. Renyi bounds at hundreds of orders are too slow for an average, and hide
        # the draws only where mates may be told apart.
        is_nested = hierarchy.episodes is None and self.noise.allocation is None and not is_shuffled(self.path)
        is_drawn_anew = is_nested and self.group.size == 1 and level.redraw_every == 1
        keeps_sizes = not any(x.is_independent for x in schemes)
        keeps_sizes &= all(each.is_equal and not each.scheme.is_cut for each in (*above, level))
        has_simple_draws = all(x.is_simple for x in schemes) and (covers_missing or keeps_sizes)
        is_affordable = self.max_mates > 0 or not isinstance(self.mechanism, RdpOnly)
        can_miss = any(drawn.missed(number) for number in range(1, unit))
        if is_drawn_anew and has_simple_draws and is_affordable and can_miss:
            mates = 0 if isinstance(self.mechanism, RdpOnly) else self.max_mates
            return hidden_unit_bound(hierarchy, drawn, adjacency=self.adjacency, max_mates=mates, exchange=exchange)
        if covers_missing or not schemes[-1].is_independent:
            return unit_count_bound(hierarchy, drawn, adjacency=self.adjacency, group=self.group, exchange=exchange)

        # A promise for batches of one size under a Poisson draw: the number of protected units drawn is public, or for
        # a single unit that of all units.
        if not self._is_number_told:
            laws = revealed_count_distributions(hierarchy, drawn, clip=hierarchy.depth, group=self.group)
            return Average(
                parts=tuple((chance * p, StepBound.sure(h)) for chance, law in laws for h, p in law.items() if h)
            )
        # The draw is over the units of one parent or, if it is not cut, of all parents that are surely drawn with it.
        # Of fewer units the share that is drawn varies more, which costs more.
        count = most = level.min_count
        if level.scheme.is_cut:
            most = level.scheme.limit or most
        elif self.noise.allocation is None:
            whole = takewhile(lambda x: x.scheme == All(), reversed(above))
            count = most = prod((x.min_count for x in whole), start=count)
        deviations = _FEW_NUMBERS if isinstance(self.mechanism, RdpOnly) else _NUMBERS
        parts: list[tuple[Fraction, Part]] = []
        for number, chance in coarsen_at_quantiles(binomial(count, drawn.rate(unit)), deviations).items():
            if number:
                share = Fraction(min(number, most), count)
                bound = StepBound(inclusion=share, shift=1, missed=(MissedBatch(1 - share, 1, 1),))
                parts.append((drawn.inclusion(unit - 1) * chance, bound))
        return Average(parts=tuple(parts))

    @property
    def _is_number_told(self) -> bool:
        """True if a Poisson draw of a replaced unit tells the number drawn; if cut, before that, out of a known one.

        The share that is drawn varies with the number of units: where nobody stated that, it could be any.
        """
        level, schemes = self.hierarchy.level(len(self.path.counts)), self.path.schemes
        is_poisson = schemes[-1].is_independent or (schemes[-1].is_cut and level.is_equal)
        is_fresh = level.redraw_every == 1 and not any(scheme.can_repeat for scheme in schemes)
        is_stated = not any(each.is_assumed for each in self.hierarchy.levels)
        return not self.change.covers_missing and self.group.size == 1 and is_poisson and is_fresh and is_stated


def secret_releases(steps: BlackBoxSteps, delta: float) -> tuple[Steps, Steps] | None:
    """Return the steps (D||D', D'||D) of passes in secret order, for use at about `delta`; None if not amplified."""
    loss = partial(_known_step_loss, steps.mechanism)
    return secret_pass_steps(steps.phase_bound, loss, steps=steps.number, delta=delta)


def _known_step_loss(mechanism: BlackBox, bound: Bound) -> Loss:
    """Return `_step_loss` of a mechanism whose losses are known; TypeError for others."""
    found = _step_loss(mechanism, bound)
    if not isinstance(found, Loss):
        raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")
    return found


def black_box_releases(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of a phase; InputError if removal takes a step from a shuffle's passes."""
    unit, group = len(steps.path.counts), steps.group
    if is_shortened(steps.hierarchy, unit=unit, adjacency=steps.adjacency, group=group):
        raise shortened_pass_error(steps.hierarchy, unit=unit, group=group)
    if group.size > 1 and steps.noise.steps_of_a_pass > 1:
        return _pass_releases(steps)
    return _releases(steps, steps.phase_bound)


def unamplified_releases(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) if they surely draw all protected units; of whole passes, the usual ones."""
    return _releases(steps, unamplified_phase(steps.phase_bound))


def _releases(steps: BlackBoxSteps, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) under a bound; of whole passes, and where it sums squared distances, its own."""
    if _passes_hold_all(steps.path) or bound.squared != 1:  # a sum of squares bounds Gaussian noise alone
        return _pass_releases(steps)
    return repeated_releases(steps.mechanism, bound, steps.number)


def repeated_releases(mechanism: BlackBox, phase_bound: PhaseBound, number: int) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of `number` steps under one bound, whose `squared` must be 1."""
    if phase_bound.squared != 1:
        raise AssertionError("only Gaussian noise sums up squared distances")
    if phase_bound.allocation is None:
        # All passes begun, under all public draws. A held draw of the protected level is one more of these, above steps
        # that surely hold the unit.
        bound, revealed = phase_bound.bound, phase_bound.revealed
        if phase_bound.hold > 1:
            bound, revealed = unamplified(bound), (*revealed, (bound.inclusion, phase_bound.hold))
        random_draws = tuple((rate, period) for rate, period in revealed if rate < 1)
        passes, step_loss = -(-number // phase_bound.steps_of_a_pass), _step_loss(mechanism, bound)
        return steps_under_draws(passes, random_draws, 1, lambda _: step_loss)

    step_loss = _step_loss(mechanism, phase_bound.bound)
    if isinstance(step_loss, Loss):
        loss, later = partial(repeated_loss, step_loss), partial(_known_step_loss, mechanism)
        return hidden_or_revealed(phase_bound, lambda bound: allocated_steps(bound, number, loss, later))
    if not phase_bound.is_revealed:
        raise UnsupportedError("allocation: expected a mechanism whose losses are known, got Renyi divergences")
    linked = chained_divergences([step_loss], len(phase_bound.links)) if phase_bound.links[1:] else step_loss
    visits = phase_bound.allocation.visits(number) * max(1, phase_bound.units_together)
    return repeated({linked: 1}, visits), repeated({linked.swapped: 1}, visits)


def _step_loss(mechanism: BlackBox, bound: Bound) -> Loss | RdpCurve:
    """Return an upper bound on a step's loss: amplified or, as work runs out, with fewer parts or not amplified."""
    try:
        return _amplified_step_loss(mechanism, bound)
    except WorkExceededError:
        few = with_few_parts(bound)
    if few != bound or isinstance(mechanism, PairOnly):  # whose atoms are few: only other units used the work up
        with own_allowance(_WORK_OF_FEW_PARTS), suppress(WorkExceededError):
            return _amplified_step_loss(mechanism, few)
    changes = bound.max_shift
    match mechanism:
        case RdpOnly():
            rdp = partial(group_divergence, mechanism.rdp, changes)
            return _curve(f"{mechanism!r} after {changes} changes", rdp, _SURE_ORDERS, changes)
        case AdditiveNoise():
            return mechanism.pair(changes)
        case PairOnly():
            # Group privacy of (epsilon, delta); all is infinite if delta reaches 1.
            pair = mechanism.pair()
            epsilon, delta = max(pair.losses, default=0.0), max(pair.infinity_mass, pair.only_other)
            total = delta * changes * math.exp(min((changes - 1) * epsilon, _LARGEST)) * (1 + _ROUNDED)
            if total >= 1:
                return ALL_INFINITE
            return ApproximateDp(epsilon=changes * epsilon * (1 + _ROUNDED), delta=total).pair()
        case _:
            raise TypeError(f"{mechanism.name}: expected a mechanism whose losses or divergences are known")


@cached_with_cost(128)
def _amplified_step_loss(mechanism: BlackBox, bound: Bound) -> Loss | RdpCurve:
    """Return an upper bound on a step's loss with amplification, an RdpCurve for RdpOnly and Loss otherwise."""
    if isinstance(mechanism, RdpOnly):
        return step_divergences(mechanism, bound)
    if isinstance(bound, MatesAverage):
        # Merging is steered by the noise multiplier, or that of Gaussian noise with about the mechanism's delta at
        # epsilon 0: which parts are merged decides how tight the bound is, not that it holds. Phi(x) - 1/2 is about
        # 0.4 x.
        if isinstance(mechanism, AdditiveNoise):
            noise_multiplier = mechanism.noise_multiplier
        else:
            noise_multiplier = 0.4 / max(_pair_after_changes(mechanism, 1).delta(0.0), 1e-9)
        bound = merge_close_parts(bound, noise_multiplier=noise_multiplier, max_centers=_MAX_CENTERS)
    return step_pair(bound, partial(_pair_after_changes, mechanism))


@cached_with_cost(512)
def _pair_after_changes(mechanism: BlackBox, changes: int) -> Loss:
    """Return the dominating pair of `changes` >= 0 sure changes; TypeError for RdpOnly."""
    match mechanism:
        case _ if not changes:
            return Loss()
        case AdditiveNoise():
            spend(_UNITS_OF_A_PAIR)
            return mechanism.pair(changes)
        case RandomizedResponse() if changes <= _MAX_JOINT_RESPONSES:
            return mechanism.pair(changes)
        case RandomizedResponse():
            half = changes // 2
            return composed(_pair_after_changes(mechanism, half), _pair_after_changes(mechanism, changes - half))
        case PairOnly() if changes > 1:  # from two halves, each remembered: that takes turns in log(changes)
            return chain_of([_pair_after_changes(mechanism, half) for half in (changes // 2, changes - changes // 2)])
        case PairOnly():
            return mechanism.pair()
        case _:
            raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")


def _passes_hold_all(path: Path) -> bool:
    """Return True if the protected level is shuffled and each pass holds all of its units."""
    return path.schemes[-1].is_shuffled and path.rate(len(path.counts)) == 1


def _pass_releases(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of all passes begun: in each, its changed batches or a group's chain."""
    path, scheme, size = steps.path, steps.path.schemes[-1], steps.group.size
    if _passes_hold_all(path):
        # The change in each batch of a pass that changes, in changes or, for noise on a sum, clip norms. The last unit
        # of the pass moves up into the place of a removed one, and is missing in the last batch.
        is_removed = steps.adjacency is Adjacency.ADD_REMOVE
        if not isinstance(steps.mechanism, AdditiveNoise):
            exchange = 1 if steps.adjacency is Adjacency.ZERO_OUT else steps.change.exchange
            changes = [exchange, 1] if is_removed else [exchange]
        elif steps.clip < len(path.counts):
            changes = [2, 2] if is_removed else [2]
        else:
            own, sibling = path.contributions[-1], path.siblings[-1]
            changes = [own] if steps.adjacency is Adjacency.ZERO_OUT else [2 * own]
            if is_removed:
                changes = [own + sibling, sibling] if sibling else [own]
        bounds: list[Bound] = [StepBound.sure(each) for each in changes]
    else:
        # Units of a group are removed one after the other. The cost of a draw grows with its rate, so that the smallest
        # frame that can occur stands for all of them. A draw from a frame with fewer units than it takes is that of a
        # frame with just as many.
        fewest = scheme.size + scheme.is_shuffled if scheme.has_stand_in or scheme.is_shuffled else 1
        removed = steps.adjacency is Adjacency.ADD_REMOVE
        fewer = min(size - 1, max(0, path.counts[-1] - fewest)) if removed else 0
        single = replace(path, counts=(*path.counts[:-1], path.counts[-1] - fewer))
        noise = native_bound(steps.hierarchy, single, clip=steps.clip, adjacency=steps.adjacency, group=Group())
        bounds = [replace(steps, path=single, group=Group(), noise=noise).phase_bound.bound]
    curves = [_step_loss(steps.mechanism, bound) for bound in bounds]
    if size > 1:  # the loss of one unit, chained once for each member
        pairs = [curve for curve in curves if isinstance(curve, Loss)]
        divergences = [curve for curve in curves if isinstance(curve, RdpCurve)]
        if pairs and divergences:
            raise AssertionError("a pass of one mechanism has losses of one kind")
        curves = [chain_of([reduce(composed, pairs)] * size) if pairs else chained_divergences(divergences, size)]
    number = -(-steps.number // steps.noise.steps_of_a_pass)
    ahead: list[Steps] = [{curve: number} for curve in curves]
    return together(ahead), together({curve.swapped: number} for curve in curves)
