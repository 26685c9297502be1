"""One pass over shuffled units in batches of a fixed size, whose order is secret (docs/theory.md, Theorem 7.10).

Reveal all of a pass but where the unit x is and where one other unit of each other batch is, its mates: given that, x
and the mates are in a uniform order. A pair (P, Q) that dominates one step of x is that of a label y ~ P or y ~ Q. If
P + Q <= 2 q W for the output law W of every mate, each mate draws a label from U = (P + Q) / 2 with chance 1/q, and
which labels belong to mates is not to be seen. With m labels in all, m - 1 ~ Binomial(M - 1, 1/q), D and D' give their
vector the densities 1 + S/m and 1 - S/m against U^m, where S is the sum of C = (P - Q) / (P + Q) over the labels. Where
P and Q exceed q W by a mass of d at most, d is added once, whoever the mates are.

Everything is read from the law of C under U. One such law dominates another if it is larger in convex order, so that
splitting a mass over two points around it, its mean kept, gives an upper bound; so does a smaller m.
"""

import itertools
import math
from fractions import Fraction

import numpy as np

from dpcalc.errors import TooLargeError, WorkExceededError
from dpcalc.losses.atoms import MAX_LOSSES, approximate_pair, glued, of_cells, public_mixture, symmetric_pair
from dpcalc.losses.cells import Resolution, cells, discretize_pessimistic
from dpcalc.losses.composition import LossPmf, SplitPmf, powers
from dpcalc.losses.loss import Loss
from dpcalc.numerics import Array, sum_by_index
from dpcalc.work import ELEMENT, cached_with_cost, spend

_TILT = 1e-3  # of the masses of one step: next to none, since all losses matter alike
# Numbers of labels that are told apart, in deviations from their mean.
_NUMBERS = (-8, -5, -3.5, -2.5, -2, -1.5, -1.2, -0.9, -0.6, -0.3, 0, 0.3, 0.6, 0.9, 1.2, 1.5, 2, 3)
_FEW = 10  # numbers up to this one are all told apart
_POINTS = 500  # lattice points in a deviation of S
_ROUNDED = 1e-12  # relative error of masses, absolute error of losses: far above the round-off
_FAR_OUT = 1e-16  # mass at either end that counts as one of infinite loss
_MANY = 50  # batches, of which the last one may be left out of account
_MOST_HIDDEN = 60.0  # log of the largest q that is tried
_TOLERATED = 5e-6  # by which masses may exceed 1 for round-off, times the number of labels: of more, some are not used
_MOST_POINTS = 1 << 20  # of the lattice of one label: a wider one is an upper bound, too
_WIDEST = -3  # log2 of the widest spacing of that lattice


@cached_with_cost(64)
def shuffled_pass(step: Loss, mates: Loss, batches: tuple[tuple[Fraction, int], ...], budget: float) -> Loss | None:
    """Return a pair that dominates a pass in both directions; None where a pass shows as much as a step.

    Args:
        step: dominates one step that holds the unit, in this direction, at every real epsilon.
        mates: dominates a step in which another unit stands in the place of the unit, in D as in D'.
        batches: (chance, number of batches over which the unit's place is uniform) of each public case; the chance
            missing to 1 is that of a pass without the unit.
        budget: about how much infinite loss, in [0, 1), may stand for mates whose output is unlike the unit's.
    """
    if all(number >= _MANY for _, number in batches):  # one batch more or less makes no odds: the fewer, an upper bound
        batches = ((sum((chance for chance, _ in batches), Fraction(0)), min(number for _, number in batches)),)
    parts = [(float(chance), _uniform_pass(step, mates, number, budget)) for chance, number in batches]
    found = [(chance, part) for chance, part in parts if part is not None]
    if len(found) < len(parts):
        return None
    return found[0][1] if found[0][0] == 1 else public_mixture(found)


def _uniform_pass(step: Loss, mates: Loss, batches: int, budget: float) -> Loss | None:
    """Return the pair of a pass in which the unit's place is uniform over `batches`."""
    values, masses, error = _law_of_a_label(step)
    spread = math.sqrt(float((masses * values**2).sum()))
    if error > _TOLERATED or not spread:
        return None
    most = math.floor(_TOLERATED / error)

    def unlike(log_q: float) -> tuple[float, float]:
        # A mate's law is at least U / q but for a mass of d / q. That raises the profile of a pass by this factor, and
        # by as much of d, an infinite loss.
        missing = mates.delta(log_q)
        log_more = batches * missing * math.exp(-log_q)
        more = math.exp(log_more) * (1 + _ROUNDED) if log_more < 1 else math.inf  # no use above
        return more, more * missing

    low, high = 0.0, _MOST_HIDDEN
    allowed = budget / 2 + 1.1 * mates.delta(high)  # of a promise some is unlike whatever q is
    if allowed > 1 / 4:
        return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if unlike(middle)[1] > allowed else (low, middle)
    more, infinite = unlike(high)
    labelled = (1 - _ROUNDED) / (math.exp(high) + mates.delta(high))

    numbers, chances = _numbers_of_labels(batches - 1, labelled, most=most)
    usual = 1 + min((batches - 1) * labelled, most)
    level = math.floor(math.log2(spread * min(math.sqrt(usual) / _POINTS, 1 / 8)))
    level = max(level, math.ceil(math.log2(float(np.ptp(values)) / _MOST_POINTS)))
    while True:
        try:
            law_of_one = _on_lattice(values, masses, level)
            sums = powers(law_of_one, numbers)
            if max(law.noise * math.sqrt(law.mass.size) for law in sums) > budget / 50:
                sums = powers(law_of_one.to_longdouble(), numbers)
            break
        except WorkExceededError:
            raise
        except TooLargeError:
            if level >= _WIDEST:
                raise
            level = min(level + 2, _WIDEST)

    losses, logs, lost, ends = [], [], 0.0, [0.0, 0.0]
    for number, chance, law in zip(numbers, chances, sums, strict=True):
        share = law.losses / number
        noise = law.noise * math.sqrt(law.mass.size)
        # Far out there is nothing but what the transform left: losses that large would decide all high moments.
        is_far = np.minimum(np.cumsum(law.mass), np.cumsum(law.mass[::-1])[::-1]) < max(_FAR_OUT, noise)
        is_far &= np.abs(share) < 1
        lost += 2 * chance * float(law.mass[is_far].sum())
        inside = (law.mass > 0) & (np.abs(share) < 1) & ~is_far
        mass = law.mass[inside].astype(np.float64) * (1 + error * number)
        # All of what the transform may have moved, twice, since densities reach 2. The two ends have infinite losses.
        lost += 2 * chance * (law.lost + noise)
        ends[0] += 2 * chance * float(law.mass[share >= 1].sum())
        ends[1] += 2 * chance * float(law.mass[share <= -1].sum())
        losses.append(2 * np.arctanh(share[inside]))
        logs.append(np.log(chance * mass) + np.log1p(share[inside]))
    spend(20 * ELEMENT * sum(each.size for each in losses))
    loss, log = np.concatenate(losses), np.concatenate(logs)
    margin = _ROUNDED * np.sign(loss)  # losses above 0 rise with their P mass, those below 0 fall with their Q mass
    loss, log = loss + margin, log + np.minimum(margin, 0.0)
    infinite += more * lost
    log += math.log(more)
    is_above, is_below = loss > 0, loss < 0
    if step.swapped != step:
        return glued(
            (log[is_above], loss[is_above]),
            ((log - loss)[is_below], loss[is_below]),
            infinity_mass=infinite + more * ends[0],
            only_other=infinite + more * ends[1],
        )
    # Of a symmetric pair losses above 0 say all. If they and their mirror images weigh more than 1, the smallest ones
    # go: the profile between those that stay is the chord over its corner at 0.
    infinite = min(1.0, infinite + more * ends[0])
    order = np.argsort(loss[is_above])
    loss, log = loss[is_above][order], log[is_above][order]
    both = np.exp(log) * (1 + np.exp(-loss))
    above_1 = np.maximum(np.cumsum(both[::-1])[::-1] - (1 - infinite), 0.0)
    kept = both > above_1
    if not kept.any():
        return approximate_pair(0.0, infinite)
    log = log[kept] + np.log1p(-above_1[kept] / both[kept])
    half = of_cells(loss[kept], log, infinity_mass=infinite, only_other=0.0, max_losses=MAX_LOSSES // 2)
    loss, log = np.array(half.losses), np.array(half.log_masses)
    return symmetric_pair(np.append(-loss[::-1], loss), np.append((log - loss)[::-1], log), infinity_mass=infinite)


def _law_of_a_label(step: Loss) -> tuple[Array, Array, float]:
    """Return (values of C, U masses, relative error of these) of a law that dominates a step."""
    # Losses above 0 by their P masses, losses below 0 by their Q masses: each is cut where its own mass is negligible.
    # Of rare losses below 0 the P masses say too little: of 1e-22 at loss -37 the Q mass is 1e-6.
    above, p = _losses_above_zero(step)
    below, q = _losses_above_zero(step.swapped)
    values = np.concatenate([-np.tanh(below / 2), np.tanh(above / 2)])
    masses = np.concatenate([q * (1 + np.exp(-below)) / 2, p * (1 + np.exp(-above)) / 2])
    # What is missing to 1 has loss 0. Rounded up, one half may take more than the other, which is given as much more.
    mean, width = float((masses * values).sum()), math.sqrt(float((masses * values**2).sum()))
    if mean and width:
        values, masses = np.append(values, -math.copysign(min(width, 1.0), mean)), np.append(masses, abs(mean) / width)
    rest = 1 - float(masses.sum())
    values, masses = np.append(values, 0.0), np.append(masses, max(rest, 0.0))
    return values, masses / float(masses.sum()), _ROUNDED + 4 * max(-rest, 0.0)


def _losses_above_zero(step: Loss) -> tuple[Array, Array]:
    """Return (losses above 0, P masses), which bound the profile from above at every epsilon >= 0."""
    losses, masses = np.zeros(0), np.zeros(0)
    if step.delta(0.0) > step.infinity_mass:
        aim = Resolution(tilt=_TILT, log_norm=0.0, copies=1, budget=1e-9, truncated_mass=1e-25)
        pmf = discretize_pessimistic(cells(step, aim))
        parts = [pmf.bulk, pmf.jumps] if isinstance(pmf, SplitPmf) else [pmf]
        losses = np.concatenate([part.losses for part in parts])
        masses = np.concatenate([part.mass * np.exp(part.log_norm - _TILT * part.losses) for part in parts])
    is_above = (losses > 0) & (masses > 0)
    infinite = step.infinity_mass
    if infinite:
        return np.append(losses[is_above], math.inf), np.append(masses[is_above], infinite)
    return losses[is_above], masses[is_above]


def _numbers_of_labels(mates: int, chance: float, *, most: int) -> tuple[tuple[int, ...], list[float]]:
    """Return numbers of labels up to `most`, the unit's too, with chances, all rounded down: an upper bound."""
    from scipy.special import bdtr  # on the start-up path it takes longer than all the rest

    mean, deviation = mates * chance, math.sqrt(mates * chance * (1 - chance))
    inner = (min(mates, max(0, math.floor(mean + deviation * each))) for each in _NUMBERS)
    few = range(min(_FEW, math.floor(mean)) + 1) if mean < 4 * _FEW else (0,)  # of few labels each tells much
    numbers = sorted({min(number, most - 1) for number in (*few, *inner)})
    below = [0.0, *(float(bdtr(number - 1, mates, chance)) for number in numbers[1:]), 1.0]
    chances = [high - low for low, high in itertools.pairwise(below)]
    kept = [(number + 1, chance) for number, chance in zip(numbers, chances, strict=True) if chance > 0]
    return tuple(number for number, _ in kept), [chance for _, chance in kept]


def _on_lattice(values: Array, masses: Array, level: int) -> LossPmf:
    """Split masses over the multiples of 2^level around them, their mean kept."""
    place = np.floor(np.ldexp(values, -level))
    up = np.ldexp(values, -level) - place
    start = int(place.min())
    index = (place - start).astype(np.int64)
    size = int(index.max()) + 2
    mass = sum_by_index(index, masses * (1 - up), size=size) + sum_by_index(index + 1, masses * up, size=size)
    return LossPmf(tilt=_TILT, level=level, start=start, mass=mass, log_norm=0.0)
