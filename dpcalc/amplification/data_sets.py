"""Lower bounds: actual neighbouring data sets D and D' under a mechanism that adds noise to a sum, as a pair (P, Q).

All data lie on the line and have norm at most 1: each contribution of the protected unit is -1 (replaced: +1), each
vector of a unit drawn with its ancestor at level j is a number of [-1, 1] that the level has (`Contributions`). The
batch means of D and D' are then mixtures whose weights are the exact probabilities of the draws. Where units of a frame
differ in size, each contributes as much as the smallest. A unit of which no record is drawn contributes nothing.

Source: docs/theory.md, Theorem 10.1.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from math import comb, prod
from typing import NamedTuple

import numpy as np

from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.additive import AdditiveNoise
from dpcalc.numerics import Array, log_fraction, log_sum_exp, log_sum_exp_by_index, normal_cdf_array
from dpcalc.sampling.counts import (
    CountDistribution,
    FullBatch,
    binomial_lower,
    convolve,
    convolve_power,
    drop_rare_tail,
    full_batch,
    hypergeometric,
    mixture,
    nonzero_probability,
    power,
    sum_of_draws,
    to_whole_bits,
)
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import CoSampled
from dpcalc.sampling.schemes import Scheme
from dpcalc.work import ELEMENT, TURN, cached_with_cost, fraction_units, spend

Mixture = dict[int, Fraction]  # weight by center, in clip norms
Pair = tuple[Mixture, Mixture]  # (P, Q): the laws of a sum without its noise in D and D'

# Any data set gives a lower bound, so that each limit here costs tightness only, never validity.
_MAX_SUMS = 200_000  # additions for unequal children of the protected unit; above, each counts as the smallest
_WEIGHT_BITS = 1100  # of a weight in further sums: rounding is below the smallest float, 2^-1074
_LAW_BITS = 160  # of one in the joint law of all numbers, which is off by less than 1e-36 in all


class Contributions(NamedTuple):
    """Contributions on the line, in units of 1 / length clip norms."""

    # By level, level 1 first, whole numbers in [-length, length]; below a clipping level above the unit, the clipped
    # vector of a draw that misses the unit.
    others: tuple[int, ...]
    length: int = 1  # of the protected unit's contributions, >= 1
    bits: int = _WEIGHT_BITS  # to which the weights of long sums are rounded


def data_set_pair(
    co_sampled: CoSampled,
    *,
    adjacency: Adjacency,
    contributions: Contributions,
    members: int = 1,
    repeats: tuple[int, ...] = (),
) -> Pair:
    """Return (P, Q), the laws of a step's sum without noise in two actual data sets D and D'.

    Centers are in clip norms / length, weights exact. For each level above the protected one `repeats` says how many
    draws of the next level are summed under one of its own.
    """
    path, clip, unit, bits = co_sampled.path, co_sampled.clip, len(co_sampled.path.counts), contributions.bits
    if clip < unit:
        # One vector holds the members: -length with any drawn, else that of the others, which is 0 with no record.
        count, own_nonempty, sign = path.counts[-1], co_sampled.own_nonempty, contributions.others[-1]
        if co_sampled.is_shuffled and not co_sampled.nonempty[clip] == own_nonempty == 1:
            sign = 0  # which other records are in a batch of a shuffle depends on the order
        unseen, empty = _no_record_in_vector(co_sampled, count, members, own_nonempty)
        p = _clipped_vector(-contributions.length, sign, unseen, empty)
        if adjacency is Adjacency.REPLACE_ONE:
            q = _clipped_vector(contributions.length, sign, unseen, empty)
        else:  # zeroed members leave the vector
            left, zeroed = (count - members, 0) if adjacency is Adjacency.ADD_REMOVE else (count, members)
            _, empty = _no_record_in_vector(co_sampled, left, zeroed, Fraction(0))
            q = _clipped_vector(0, sign, Fraction(1), empty)
    else:
        own, count = _scale(_own_contributions(co_sampled, bits), contributions.length), path.counts[-1]
        each = _sibling_sum(co_sampled, unit, contributions)
        p = _draw_sum(co_sampled, unit, each, (members, _scale(own, -1)), count, bits)
        if adjacency is Adjacency.ADD_REMOVE:
            q = _draw_sum(co_sampled, unit, each, (0, own), count - members, bits)
        else:
            replaced = own if adjacency is Adjacency.REPLACE_ONE else {0: Fraction(1)}
            q = _draw_sum(co_sampled, unit, each, (members, replaced), count, bits)

    # From that draw to the whole sum, level by level outwards: siblings and the draws of the unit on the path.
    repeats = repeats or (1,) * unit
    lowest = min(clip, unit - 1)
    for level in range(lowest, 0, -1):
        sibling = _sibling_sum(co_sampled, level, contributions, prod(repeats[level - 1 : lowest]))
        sides = [sum_of_draws(to_whole_bits(side, bits), repeats[level - 1], bits=bits) for side in (p, q)]
        p, q = (_draw_sum(co_sampled, level, sibling, (1, side), path.counts[level - 1], bits) for side in sides)
    return to_whole_bits(p, bits), to_whole_bits(q, bits)


def _draw_sum(
    co_sampled: CoSampled, level: int, each: Mixture, members: tuple[int, Mixture], count: int, bits: int
) -> Mixture:
    """Return the law of the sum of a level's draw from `count` units: of so many the law is given, of others `each`.

    In a pass or a draw of everything the others may add nothing; rare large numbers of members are cut.
    """
    scheme, drawn, others, (number, own) = co_sampled.path.schemes[level - 1], 0, {0: Fraction(1)}, members
    if scheme.is_cut:  # of single units alone
        return _cut_sum(scheme, count, each, own, bits=bits) if number else scheme.sum_of_drawn(each, count, bits)
    law = {number: Fraction(1)}
    if scheme.has_stand_in:
        drawn = min(scheme.size, count)
        law = hypergeometric(count, number, drawn, is_lower=True)
    elif scheme.can_repeat:
        drawn = scheme.size if count else 0
        law = binomial_lower(drawn, Fraction(number, max(count, 1)))
    elif scheme.is_independent:  # the sum of the other units is independent of the members drawn
        law = binomial_lower(number, scheme.probability)
        others = sum_of_draws(each, count - number, scheme.probability, bits=bits)
    elif _shows_draws(co_sampled, level):
        others = sum_of_draws(each, count - number, bits=bits)
    return convolve(others, _counted_sum(law, own, each, drawn, bits))


def _cut_sum(
    scheme: Scheme, count: int, each: CountDistribution, inner: CountDistribution, *, bits: int
) -> CountDistribution:
    """Return the law of a capped draw's sum: `inner` of the path's unit and `each` other's; weights are rounded."""
    nothing = {0: Fraction(1)}
    # Where others add nothing, one case stands for all their numbers below the cap.
    is_alone = each.keys() == {0}
    others = nothing if is_alone else sum_of_draws({1: Fraction(1)}, count - 1, scheme.probability, bits=bits)
    full, cap = _known_full_batch(scheme, count), scheme.limit or count
    # Either the others leave room, and then T of them are drawn beside the unit or without it, T < cap; or they fill
    # the batch, and the unit, if it stays, takes the place of one of them. A case: its chance, the others in the batch
    # without the unit and with it, and the chance that the unit is in it.
    room = {number: share for number, share in others.items() if number < cap}
    factor = (1 - full.chance) / sum(room.values()) if room else Fraction(0)
    cases = [(share * factor, number, number, scheme.probability) for number, share in sorted(room.items())]
    cases.append((full.chance, cap, cap - 1, full.inclusion))
    parts, sums = [], [nothing]  # the sum of so many others
    for chance, without, beside, inclusion in cases:
        while len(sums) <= without:
            sums.append(nothing if is_alone else to_whole_bits(convolve(sums[-1], each), bits))
        parts += [(chance * (1 - inclusion), sums[without]), (chance * inclusion, convolve(sums[beside], inner))]
    return to_whole_bits(mixture(parts), bits)


def _known_full_batch(scheme: Scheme, count: int) -> FullBatch:
    """Return `full_batch` for the other units of a capped draw; WorkExceededError if it is too costly."""
    known = full_batch(count - 1, scheme.probability, scheme.limit or count)
    if known is None:
        raise WorkExceededError("max_batch_size: expected batches of fewer likely sizes, got too many to count")
    return known


def _shows_draws(co_sampled: CoSampled, level: int) -> bool:
    """Return True if the units of a level are drawn all together, with the unit above them or not at all."""
    # Without a random draw above they would add a constant; what they add to a pass may depend on its order.
    *above, scheme = co_sampled.path.schemes[:level]
    return scheme.is_whole and not co_sampled.has_passes and not all(each.is_whole for each in above)


def _sibling_sum(co_sampled: CoSampled, level: int, contributions: Contributions, draws: int = 1) -> Mixture:
    """Return the law of the sum of a sibling's `draws` draws, each of its level's vectors; {0: 1} if it is unknown."""
    sign, bits = contributions.others[level - 1], contributions.bits
    vectors, nonempty = co_sampled.sibling_contributions[level - 1], co_sampled.nonempty[co_sampled.clip]
    if sign and not vectors and draws == 1:
        # Of a frame as many units contribute as the smallest one of that level has; the same ones in every draw.
        law = {1: nonempty, 0: 1 - nonempty} if co_sampled.frames else {0: Fraction(1)}
        for below, fewest in reversed(co_sampled.frames[level:]):
            law = below.scheme.sum_of_drawn({value: chance for value, chance in law.items() if chance}, fewest, bits)
        return _scale(law, sign)
    if nonempty == 1:
        return {sign * vectors * draws: Fraction(1)}
    return {0: Fraction(1)} if draws > 1 else _scale(sum_of_draws({1: Fraction(1)}, vectors, nonempty, bits=bits), sign)


def _counted_sum(law: CountDistribution, own: Mixture, each: Mixture, drawn: int, bits: int = _WEIGHT_BITS) -> Mixture:
    """Return the law of the sum of H members of `own` each and, of so many drawn, of `each` for all others."""
    # Counts ascend, so that the sum of own contributions grows from one to the next instead of being computed anew.
    total, own_sum, reached = Mixture(), {0: Fraction(1)}, 0
    for h, chance in sorted(law.items()):
        own_sum, reached = to_whole_bits(convolve(own_sum, sum_of_draws(own, h - reached, bits=bits)), bits), h
        both = convolve(sum_of_draws(each, max(drawn - h, 0), bits=bits), own_sum)
        spend(fraction_units(8 + 2 * len(both), 2 * bits))
        for center, weight in both.items():
            total[center] = total.get(center, Fraction(0)) + chance * weight
    return total


def episode_pair(
    hierarchy: Hierarchy,
    contributions: Contributions,
    *,
    unit: int,
    clip: int,
    adjacency: Adjacency,
    members: int = 1,
) -> Pair:
    """Return (P, Q), the laws of the sum of a step of episodes in two actual data sets D and D', without noise."""
    built = hierarchy.episodes
    if built is None:
        raise LookupError("episodes: expected constructed tasks, got none")
    classes, records = hierarchy.levels
    if unit == 1:  # protected classes, or whether the protected record is there
        in_task = hypergeometric(classes.count, members, built.ways)
    else:
        rate = built.rate((classes.count, records.count))
        in_task = {0: 1 - rate, 1: rate}
    vectors = 1
    if clip == 2:
        vectors = built.records if unit == 1 else 1
        law = drop_rare_tail(convolve_power(in_task, built.tasks))
        drawn = built.tasks * built.ways * (1 if unit == 1 else built.records)
        if (built.ways, built.records)[unit - 1] == hierarchy.level(unit).count:
            drawn = 0  # a task takes all that there are: nobody is left to stand in
    else:
        # A vector of several records turns around if any of them is protected: only the number of such vectors counts,
        # of the tasks (clip 1) or of the batch (clip 0).
        law, drawn = binomial_lower(built.tasks, nonzero_probability(in_task)), built.tasks
        if clip == 0:
            law, drawn = {0: law.get(0, Fraction(0)), 1: nonzero_probability(law)}, 1
        if unit == 2 or adjacency is Adjacency.ZERO_OUT:
            adjacency = Adjacency.REPLACE_ONE  # the vector that the unit turned around stays
    own, each = {contributions.length * vectors: Fraction(1)}, {contributions.others[-1] * vectors: Fraction(1)}
    p = _counted_sum(law, _scale(own, -1), each, drawn)
    if adjacency is Adjacency.ADD_REMOVE:
        return p, _counted_sum({0: Fraction(1)}, own, each, drawn)
    return p, _counted_sum(law, own if adjacency is Adjacency.REPLACE_ONE else {0: Fraction(1)}, each, drawn)


def _clipped_vector(own: int, sign: int, unseen: Fraction, empty: Fraction) -> Mixture:
    """Return {own: Pr[a member is drawn], sign: Pr[only others are], 0: Pr[no record is]}, without zeros."""
    total: Mixture = {}
    for center, weight in ((own, 1 - unseen), (sign, unseen - empty), (0, empty)):
        if weight:
            total[center] = total.get(center, Fraction(0)) + weight
    return total


def _no_record_in_vector(
    co_sampled: CoSampled, count: int, members: int, own_nonempty: Fraction
) -> tuple[Fraction, Fraction]:
    """Return (Pr[no record of a member is drawn], Pr[no record at all]) in a drawn unit of the clipping level."""
    # From the members' frame outwards to the clipping unit: of `count` units some are members, further out one is on
    # the path. Each of them is missed, or drawn and then as below; the others are drawn without a record, or missed.
    path, unit = co_sampled.path, len(co_sampled.path.counts)
    unseen = empty = 1 - own_nonempty
    for level in range(unit, co_sampled.clip, -1):
        if level < unit:
            count, members = path.counts[level - 1], 1
        other_empty = 1 - co_sampled.nonempty[level]
        scheme = path.schemes[level - 1]
        if not count:
            unseen = empty = Fraction(1)
        elif scheme.has_stand_in:
            drawn = min(scheme.size, count)
            law = hypergeometric(count, members, drawn).items()
            empty = sum((p * power(empty, h) * power(other_empty, drawn - h) for h, p in law), Fraction(0))
            unseen = sum((p * power(unseen, h) for h, p in law), Fraction(0))
        elif scheme.can_repeat:
            rate = Fraction(members, count)
            empty = power(rate * empty + (1 - rate) * other_empty, scheme.size)
            unseen = power(1 - rate + rate * unseen, scheme.size)
        elif scheme.is_cut and not members:  # as if every other unit held records
            unseen, empty = Fraction(1), power(1 - scheme.probability, count)
        elif scheme.is_cut:  # of one member
            unseen = 1 - scheme.rate(count) * (1 - unseen)
            chance, inclusion = _known_full_batch(scheme, count)
            nobody = power(1 - scheme.probability, count - 1) * (1 - scheme.probability * (1 - empty))
            empty = nobody + (chance * inclusion * empty if scheme.limit == 1 else 0)
        else:
            rate = scheme.rate(count)
            empty = power(1 - rate + rate * empty, members) * power(1 - rate + rate * other_empty, count - members)
            unseen = power(1 - rate + rate * unseen, members)
    return unseen, empty


@cached_with_cost(16)
def _own_contributions(co_sampled: CoSampled, bits: int) -> Mixture:
    """Return the law of a drawn unit's contributions."""
    nonempty, below = co_sampled.own_nonempty, co_sampled.levels_below
    drawn = below[0][0].scheme if below else None
    if drawn is not None and drawn.has_stand_in and nonempty == 1:  # a fixed draw of children that surely hold records
        children, size = co_sampled.child_contributions, drawn.size
        if 0 < len(children) * size**2 * max(children, default=0) < _MAX_SUMS:
            # ways[k][t]: number of k-subsets of the children so far with sum t; taken downwards, each is used once.
            ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
            for child in children:
                spend(2 * TURN * sum(map(len, ways)))
                for taken in range(size, 0, -1):
                    for total, number in ways[taken - 1].items():
                        ways[taken][total + child] = ways[taken].get(total + child, 0) + number
            return {total: Fraction(number, comb(len(children), size)) for total, number in ways[size].items()}
    law: Mixture = {0: 1 - nonempty, 1: nonempty} if nonempty < 1 else {1: Fraction(1)}
    if co_sampled.own_contributions:
        return sum_of_draws(law, co_sampled.own_contributions, bits=bits)
    for level, count in reversed(below):
        # The last batch of a shuffle may hold one child alone.
        is_short = level.scheme.is_shuffled and not level.scheme.drop_last
        law = law if is_short else level.scheme.sum_of_drawn(law, count, bits)
    return law


def _scale(a: Mixture, factor: int) -> Mixture:
    """Return the law of `factor` times a count; a factor of 0 gives {0: total weight}."""
    return {factor * x: p for x, p in a.items()} if factor else {0: sum(a.values(), start=Fraction(0))}


# The loss of a pair under noise that is not Gaussian, as atoms. Noise around whole centers is reduced to the cell into
# which it falls. That is post-processing, so the pair costs at most as much as the data set; the cells are so small
# that it hardly costs less.

_MIN_MASS = 1e-300  # of the only loss of two equal distributions
_KEPT_SHARE = 1 - 1e-12  # factor on the masses, so that no round-off makes them too large: it lowers the bound
_ROUNDED = 2e-15  # by which a loss is lowered, relative to the two logarithms whose difference it is


def data_set_atoms(mechanism: AdditiveNoise, p: Mixture, q: Mixture) -> Loss:
    """Return atoms with a lower bound on the loss D||D' between p and q plus noise, if only the output's cell is seen.

    Source: docs/theory.md, Theorem 10.1.
    """
    centers = sorted({*p, *q})
    rows = {center: mechanism.cell_log_masses(center, centers) for center in centers}
    log_p, log_q = (
        log_sum_exp([log_fraction(weight) + rows[center] for center, weight in mixture.items() if weight])
        for mixture in (p, q)
    )

    # Losses lowered by their round-off, and masses by a share of 1e-12, are those of a profile nowhere above.
    both = (log_p > -np.inf) & (log_q > -np.inf)
    losses = log_p[both] - log_q[both]
    losses -= _ROUNDED * (1 + np.abs(log_p[both]) + np.abs(log_q[both]))
    values, place = np.unique(losses, return_inverse=True)
    logs = log_sum_exp_by_index(place, log_p[both], size=values.size) + math.log(_KEPT_SHARE)
    alone = float(np.exp(log_p[log_q == -np.inf]).sum()) * _KEPT_SHARE
    if not values.size:  # accountants look at losses
        values, logs = np.zeros(1), np.array([math.log(_MIN_MASS)])
    return Loss(losses=tuple(values.tolist()), log_masses=tuple(logs.tolist()), infinity_mass=alone, is_one_way=True)


# The law of the numbers of vectors of each kind that a step draws is the same for all data sets: the pair of one of
# them is read from it. Under Gaussian noise the vectors may lie in the plane: what others contribute across the line on
# which the unit does shows which of its ancestors are drawn and does not hide it. Under other noise on vectors they
# have any length on the line, under noise on whole numbers they are 1, -1 or 0.

_BASE = 1 << 128  # above twice every number of vectors of a kind that a step draws
_NEGLIGIBLE = 1e-25  # probability of numbers of vectors that are left out of P, and may be anywhere in Q
_OFF = 1e-36  # bound on the error of the laws of `has_all`
_WIDTHS = 0.06, 0.12  # of cells along the line and across, in deviations: coarser by a half costs .1 % of epsilon
_WIDTHS_ON_LINE = 0.01, 1.0  # if all centers are on the line
_REACH = 12.0  # deviations from the outermost centers to the last cuts
_RAREST_CELL = 1e-20  # P mass of a cell; rarer ones are left out of P
_ROUND_OFF = 1e-11  # relative, of cells' masses: normal ones err by 1e-12, sums of 1e4 positive terms by as much
_FARTHEST = 200.0  # deviations of a center from 0: a mass 37 deviations from there errs by 2e-12
_MAX_PRODUCTS = 1e9  # of masses along and across; with more, cells are coarser
_ROUGHLY, _SPACING, _NEAR, _FAR = 1e-10, 0.7, 7.0, 30.0  # of a sum that only guides the search, as above
_RANGE = 8  # of numbers, in the steps to whose multiples they may be rounded there
FEW_CELLS = 400  # about the cells of other noise in such a sum
_BINS, _LEAST = 30, 1e-3  # of losses there: so many to a factor e, and above 1 to 1; from a least loss on
_NODES, _PERIOD, _EPSILONS = 32, 2.5, 128  # of such a sum by inversion
FULL = 8  # steps of a length up to 1: epsilon is flat near the best ones

RoughLoss = tuple[Array, Array]  # masses, losses
Masses = Callable[[Array], tuple[Array, Array]]  # of noise around centers (cases, 2): along and across (cells, cases)


class DrawnNumbers(NamedTuple):
    """The joint law of the numbers of vectors that a step draws, in D and in D'."""

    numbers: (
        Array  # of the protected unit (-1 each, replaced: +1) and of the others by level, shape (cases, levels + 1)
    )
    p: Array  # probability of each case in D
    q: Array  # in D'

    @classmethod
    def of(cls, pair: Callable[[Contributions], Pair], unit: int, levels: Iterable[int]) -> "DrawnNumbers":
        """Return the law of a step whose sum has the law `pair`, if others of some levels, from 1, contribute."""
        kinds = [_BASE**level if level in levels else 0 for level in range(1, unit + 1)]
        p, q = pair(Contributions(tuple(kinds), bits=_LAW_BITS))
        cases = sorted({*p, *q})
        spend(2 * TURN * len(cases) * (unit + 2))
        numbers, rest = [], cases
        for kind in range(unit + 1):
            found = [(case + _BASE // 2) % _BASE - _BASE // 2 for case in rest]
            rest = [(case - number) // _BASE for case, number in zip(rest, found, strict=True)]
            least = min(found) if kind else 0  # what is in every batch only moves all of them
            numbers.append([number - least for number in found])
        weights = ([float(side.get(case, 0)) for case in cases] for side in (p, q))
        return cls(np.array(numbers, dtype=float).T, *map(np.array, weights))

    @property
    def swapped(self) -> "DrawnNumbers":
        """The law with D and D' exchanged."""
        return DrawnNumbers(self.numbers, self.q, self.p)

    def merged(self, step: int) -> "DrawnNumbers":
        """Return a rough law: the likely numbers of other units' vectors, of some range, as multiples of `step`."""
        likely = np.maximum(self.p, self.q) > _ROUGHLY
        rough = self.numbers[likely]
        steps = np.clip(np.ptp(rough[:, 1:], axis=0) // _RANGE, 1, step)
        rough[:, 1:] = np.rint(rough[:, 1:] / steps) * steps
        rough, place = np.unique(rough, axis=0, return_inverse=True)
        p, q = (np.bincount(place.ravel(), side[likely]).astype(float) for side in (self.p, self.q))
        return DrawnNumbers(rough, p, q)

    def centers(self, vectors: Array) -> Array:
        """Return the sum of a case, shape (cases, 2); the unit's vectors lie along (1, 0), `vectors` is by level."""
        return np.asarray(self.numbers @ np.concatenate([[[1.0, 0.0]], vectors]))

    def on_line(self, others: Sequence[float]) -> tuple[Array, Array, Array]:
        """Return (centers, their weights in D, those in D') of data on the line, by contributions of each level."""
        centers, place = np.unique(self.numbers @ np.array([1, *others]), return_inverse=True)
        p, q = (np.bincount(place, side).astype(float) for side in (self.p, self.q))
        return centers, p, q

    def loss(self, vectors: Array, *, noise: AdditiveNoise | float) -> Loss:
        """Return atoms with a lower bound on the loss D||D' of the sum plus noise, if only the output's cell is seen;
        WorkExceededError where centers may lie so far out that round-off counts.

        Gaussian noise is given as its deviation. Source: docs/theory.md, Theorem 10.1 (6).
        """
        likely = np.maximum(self.p, self.q) > _NEGLIGIBLE
        places, place = np.unique(self.centers(vectors)[likely], axis=0, return_inverse=True)
        weights = [np.bincount(place.ravel(), side[likely]).astype(float) for side in (self.p, self.q)]
        if isinstance(noise, AdditiveNoise):
            along, across = line_masses(noise, places[:, 0], cells=None)(places)
        else:
            along, across = _normal_masses(places / noise)
        spend(along.size * across.shape[0] / 8)
        p, q = (((along * side) @ across.T).ravel() for side in weights)
        p, q = p[p > _RAREST_CELL], q[p > _RAREST_CELL]
        # Every mass of P is at most the true one, and every one of Q, p e^-loss, at least.
        q += self.q[~likely].sum() + _OFF
        losses, place = np.unique(np.log(p) - np.log(q) - 3 * _ROUND_OFF, return_inverse=True)
        logs = np.log(np.bincount(place, p)) - _ROUND_OFF
        return Loss(
            losses=tuple(losses.tolist()),
            log_masses=tuple(logs.tolist()),
            is_one_way=True,
            given_zero_mass=0.0,
        )

    def rough_losses(self, vectors: Array, masses: Masses) -> "tuple[RoughLoss, RoughLoss]":
        """Return about the losses of D||D' and of D'||D."""
        along, across = masses(self.centers(vectors))
        spend(along.size * across.shape[0] / 8 + 4 * ELEMENT * along.shape[0] * across.shape[0])
        p, q = (((along * weights) @ across.T).ravel() for weights in (self.p, self.q))
        likely = np.maximum(p, q) > _ROUGHLY**2
        p, q = p[likely] + sys.float_info.min, q[likely] + sys.float_info.min
        loss = np.log(p / q)
        # Losses that differ by 3 %, or above 1 by .03, become their mean.
        size = np.abs(loss)
        bins = _BINS * np.sign(loss) * (np.log1p(np.minimum(size, 1) / _LEAST) + np.maximum(size - 1, 0))
        bins = bins.astype(int)
        bins -= bins.min()
        sides = []
        for side, ratio in ((p, loss), (q, -loss)):
            mass, total = np.bincount(bins, side).astype(float), np.bincount(bins, side * ratio)
            sides.append((mass[mass > 0], total[mass > 0] / mass[mass > 0]))
        return sides[0], sides[1]


def rough_epsilon(steps: Sequence[tuple[RoughLoss, int]], orders: Array, *, delta: float) -> float:
    """Return about the epsilon of independent steps, each so often, by inversion at the best of some orders.

    It only guides a search. Source: docs/theory.md, Theorem 9.9.
    """
    spend(sum(2 * ELEMENT * (orders.size + _NODES) * loss.size for (_, loss), _ in steps))
    cumulants = np.zeros(orders.size)
    for (masses, losses), number in steps:
        cumulants += number * (np.log(np.exp(np.outer(orders, losses - losses.max())) @ masses) + orders * losses.max())
    bounds = (cumulants - orders * np.log1p(1 / orders) - np.log1p(orders) - math.log(delta)) / orders
    most, at = bounds.min(), max(int(bounds.argmin()) - 1, 0)  # at a lower order the sum converges faster
    order, period = orders[at], _PERIOD * math.log(1 / delta) / orders[at]
    if most <= 0:
        return float(most)
    epsilons = np.linspace(0, most, _EPSILONS)
    if sum(number for _, number in steps) == 1:
        ((masses, losses),) = (loss for loss, _ in steps)
        above = np.log(np.maximum(-np.expm1(np.minimum(epsilons[:, None] - losses, 0)) @ masses, sys.float_info.min))
    else:
        nodes = order + 2j * math.pi / period * np.arange(_NODES)
        transform = np.zeros(_NODES, dtype=complex)
        for (masses, losses), number in steps:
            tilted = masses * np.exp(order * (losses - losses.max()))
            turns = np.broadcast_to(np.exp((nodes[1] - order) * losses), (_NODES - 1, losses.size))
            transform += number * np.log(np.append(tilted.sum(), np.multiply.accumulate(turns) @ tilted))
        terms = np.exp(transform - transform[0]) / (nodes * (1 + nodes))
        terms[0] /= 2
        deltas = (np.exp(-np.outer(epsilons, nodes - order)) @ terms).real * 2 / period
        above = np.log(np.maximum(deltas, sys.float_info.min)) + (cumulants[at] - order * epsilons)
    above -= math.log(delta)
    last = int(np.flatnonzero(above >= 0).max(initial=-1))
    if last < 0:
        return float(above[0])  # 0 or less, and more where delta is larger
    if last == _EPSILONS - 1:
        return float(most)
    share = above[last] / (above[last] - above[last + 1])
    return float(epsilons[last] + share * epsilons[1])


def _normal_masses(centers: Array) -> tuple[Array, Array]:
    """Return the masses of normal noise around centers (cases, 2), of deviation 1, in the cells of a lattice."""
    if np.abs(centers).max() > _FARTHEST:
        raise WorkExceededError("centers: expected fewer deviations between them, got too many for exact masses")
    widths, reaches = _WIDTHS, np.ptp(centers, axis=0) + 2 * _REACH
    if not centers[:, 1].any():  # one cell across
        widths, reaches[1] = _WIDTHS_ON_LINE, 1.0
    coarser = max(1.0, math.sqrt(centers.size / 2 * (reaches / widths).prod() / _MAX_PRODUCTS))
    masses = []
    for place, reach, width in zip(centers.T, reaches, widths, strict=True):
        cuts = place.min() - _REACH + np.linspace(0, reach, math.ceil(reach / width / coarser) + 1)
        spend(2 * ELEMENT * cuts.size * place.size)
        # The first and the last cell go on for ever; masses above a center are those of the reflected cell.
        cuts[0], cuts[-1] = -np.inf, np.inf
        low, high = cuts[:-1, None] - place, cuts[1:, None] - place
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
        masses.append(normal_cdf_array(high) - normal_cdf_array(low))
    return masses[0], masses[1]


def rough_normal_masses(centers: Array, *, deviation: float, far: float) -> tuple[Array, Array]:
    """Return about the masses of normal noise on a coarse lattice that goes `far` deviations beyond the centers."""
    densities = []
    for place, reach in zip(centers.T / deviation, (min(_NEAR + far, _FAR), _NEAR), strict=True):
        points = np.arange(place.min() - reach, place.max() + reach, _SPACING)
        spend(ELEMENT * points.size * place.size)
        densities.append(np.exp(-((points[:, None] - place) ** 2) / 2) * (_SPACING / math.sqrt(2 * math.pi)))
    return densities[0], densities[1]


def line_masses(noise: AdditiveNoise, centers: Array, *, cells: int | None) -> Masses:
    """Return the masses of noise around any of the centers on the line, given in clip norms; about so many cells."""
    fineness = 1 if noise.is_whole else FULL
    noise, places = noise.scaled(fineness), np.unique(np.rint(centers * fineness)).astype(int).tolist()

    @cache
    def row(center: int) -> Array:
        masses = np.exp(noise.cell_log_masses(center, places))
        together = 1 if cells is None else max(1, masses.size // cells)
        return np.add.reduceat(masses, np.arange(0, masses.size, together))

    def masses(centers: Array) -> tuple[Array, Array]:
        rows = [row(center) for center in np.rint(centers[:, 0] * fineness).astype(int).tolist()]
        return np.stack(rows, axis=1), np.ones((1, len(rows)))

    return masses
