"""Privacy loss distributions: certified upper and lower bounds on epsilon and delta.

Losses far beyond epsilon draw the tilt that suits the moment bound away from it, and the numbers near epsilon lose
their digits. So it is where a few rare losses decide: one of them is beyond epsilon, and by how much hardly matters.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from dpcalc.accountants import Accountant, AccountantResult, costliest_release
from dpcalc.accountants.closed_forms import advanced, basic, closed_form_delta, closed_form_epsilon, optimal
from dpcalc.accountants.composed_loss import (
    LARGE,
    UPPER,
    BoundSide,
    ComposedLoss,
    EpsilonBound,
    composed_loss,
    delta_at_epsilon,
    divergence_error,
    epsilon_at_delta,
    untilted_masses,
)
from dpcalc.accountants.rdp import best_delta, best_epsilon, rdp, rdp_classic, trimmed_epsilon
from dpcalc.errors import ConvergenceError, TooLargeError, UnsupportedError, WorkExceededError
from dpcalc.losses.cells import Resolution
from dpcalc.losses.composition import TailCap, cap_pessimistic, capped
from dpcalc.losses.moments import (
    ComposedMoments,
    LossMoments,
    Steps,
    largest_loss,
    segment_ends,
    together,
    total_infinity_mass,
)
from dpcalc.numerics import UNIT_ROUNDOFF, Array

# None of these affects validity: any cap gives a bound. They decide how tight it is and how many attempts it takes.
_MARGINS = 2.0 ** np.arange(-60, 4.5, 0.5)  # distances above epsilon that are tried for the cap; epsilon may be 1e-8
_MAX_TAKEN_BACK = 1e-6  # expected number of negative losses larger than the distance
_DEVIATIONS = 5.0  # of the sum of the small losses that the distance must exceed
_PER_MARGIN = 8  # lattice points in the distance, at least
_UNINFORMATIVE = 1e3  # times delta: a moment bound that says little about it
_CAPPED_SHARE = 0.1  # of the moment bound, to which capping must lower it to be worth it
_HUGE = 600.0  # exponent that leaves room for sums
NEGLECTED = 1e-4  # share of delta spent on losses so rare that they are called infinite
ROUNDED = 3e-4  # share of delta that round-off may have before extended precision is called for
_COARSE_FACTOR = 16.0  # times the budget, for the attempts that look for epsilon
_FINEST = 1 / 64  # of the budget
_ACCURATE = 2.0  # times the width that is aimed at, at which refinement ends
_RARE_ATTEMPTS = 7  # compositions at most, each finer or at a better guess
_FAR_EXCESS = 1e3  # excess of the moment bound that calls for another guess
_MIN_STEEPNESS = 0.3  # steepness below which no more accuracy is asked for


def rare_event_bounds(
    counts: Steps,
    moments: ComposedMoments,
    *,
    delta: float,
    truncated_mass: float,
    epsilon_upper: float,
    sides: tuple[BoundSide, ...],
    width: float,
) -> tuple[float, ...] | None:
    """Return the tightest bound on epsilon per side of up to 7 capped compositions; ConvergenceError if none fits."""
    # None unless capping the losses above a rough epsilon lowers the moment bound on delta much.
    parts = [(np.zeros(0), np.zeros(0)), *_expected_losses(moments.parts, 1.0)]
    number, loss = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(loss)
    number, loss = number[order], loss[order]

    # A low estimate of epsilon, as if no two losses ever met in one run: rare ones seldom do, and more of them would
    # only raise epsilon.
    rare_number, rare_loss = number[loss > 0], loss[loss > 0]
    above = np.cumsum(rare_number[::-1])[::-1]
    gone = np.cumsum((rare_number * np.exp(-rare_loss))[::-1])[::-1]
    exceeding = np.flatnonzero(above - np.exp(np.minimum(rare_loss, _HUGE)) * gone > delta)
    if not exceeding.size:
        return None
    guess = float(rare_loss[exceeding[-1]])

    # The least margin that bounds nearly all negative losses, larger ones of which would undo a cap, and the sum of the
    # losses below it, which are the bulk.
    order = np.argsort(np.abs(loss))
    bulk_number, bulk_loss = number[order], loss[order]
    within = np.searchsorted(np.abs(bulk_loss), _MARGINS)
    variance = np.append(0.0, np.cumsum(bulk_number * bulk_loss**2))[within]
    back = np.where(bulk_loss < 0, bulk_number, 0.0)
    outside = float(back.sum()) - np.append(0.0, np.cumsum(back))[within]
    enough = (outside < _MAX_TAKEN_BACK) & (_DEVIATIONS * np.sqrt(variance) + variance / 2 < _MARGINS)
    cap_margin = float(_MARGINS[int(np.argmax(enough))]) if enough.any() else float(_MARGINS[-1])
    if guess + cap_margin >= min(epsilon_upper, float(loss[-1])):  # no room for a cap
        return None

    def capped_counts(epsilon: float, cap: TailCap) -> Steps:
        """Return the steps, those losses capped that are far above epsilon, at the next grid point."""
        # On a grid point, so that the atom of the capped mass is not rounded by the grid.
        unit = 2.0 ** math.floor(math.log2(cap_margin / _PER_MARGIN))
        limit = unit * math.ceil((epsilon + cap_margin) / unit)  # a point of every lattice that is fine enough
        return together({capped(curve, limit, cap, min_mass=truncated_mass): count} for curve, count in counts.items())

    uncapped_delta = best_delta(counts, epsilon=guess, truncated_mass=truncated_mass).value
    if uncapped_delta < _UNINFORMATIVE * delta:
        return None
    some = capped_counts(guess, cap_pessimistic)
    if best_delta(some, epsilon=guess, truncated_mass=truncated_mass).value >= _CAPPED_SHARE * uncapped_delta:
        return None

    # An attempt caps the losses above its guess of epsilon and takes the tilt that suits delta there. Once the guess is
    # good, the gain of the last refinement says how much finer the next grid must be: the error of rounding is
    # proportional to the budget.
    ends = []
    for side in sides:
        end = epsilon_upper if side is UPPER else 0.0  # known without any attempt
        near, steepness, has_long_doubles = guess, math.inf, False
        share = _COARSE_FACTOR  # of the budget that would do if all losses were rounded alike
        coarse, gain = math.nan, 1.0  # epsilon at the same guess with a budget larger by `gain`; nan if none
        for attempt in range(_RARE_ATTEMPTS):
            bound = EpsilonBound(epsilon=math.inf if side is UPPER else 0.0, steepness=1.0)  # if no delta is left
            try:
                steps = capped_counts(near, side.cap_tail)
                finite_delta = delta_of_finite_losses(steps, delta, side)
                if finite_delta > 0:
                    best = best_delta(steps, epsilon=near, truncated_mass=truncated_mass)
                    scale = min(max(steepness, _MIN_STEEPNESS), max(best.order * near, 1.0))
                    settings = Resolution(
                        tilt=best.order,
                        budget=share * width * scale,
                        truncated_mass=truncated_mass,
                        has_long_doubles=has_long_doubles,
                    )
                    (composed,) = composed_loss(steps, best.moments, settings, (side,))
                    bound = epsilon_at_delta(composed, finite_delta, side)
            except ConvergenceError:
                if not attempt:
                    raise
                break
            epsilon, steepness = bound.epsilon, bound.steepness
            end = min(end, epsilon) if side is UPPER else max(end, epsilon)
            # In this order: more digits if round-off spoils the bound, another guess if the tilt does not suit epsilon
            # or the cap is below it, then finer grids until two of them agree.
            if bound.roundoff > ROUNDED * steepness and not has_long_doubles:
                has_long_doubles = True
            elif epsilon > near + cap_margin / 2 or (bound.excess > _FAR_EXCESS and abs(epsilon - near) > 0.1 * near):
                near, coarse = min(max(epsilon, near / 2), 2 * near, epsilon_upper), math.nan
            elif math.isnan(coarse):
                share, coarse, gain = share / _COARSE_FACTOR, epsilon, _COARSE_FACTOR
            else:
                error, allowed = abs(epsilon - coarse) / (gain - 1), _ACCURATE * width * epsilon
                if error <= allowed or share <= _FINEST:
                    break
                gain = min(max(error / max(allowed, 1e-300), 2.0), _COARSE_FACTOR)
                share, coarse = max(share / gain, _FINEST), epsilon
        ends.append(end)
    return tuple(ends)


def _expected_losses(parts: Iterable[tuple[Any, int]], rate: float) -> Iterator[tuple[Array, Array]]:
    """Yield (expected numbers, losses) of each step, those under a public draw times its rate; other kinds skipped."""
    for moments, count in parts:
        if isinstance(moments, ComposedMoments):
            yield from _expected_losses(moments.parts, rate * moments.rate * count)
        elif isinstance(moments, LossMoments):
            yield rate * count * np.exp(moments.log_mass), moments.loss


def delta_of_finite_losses(counts: Steps, delta: float, side: BoundSide) -> float:
    """Return `delta` less the infinity mass and, for UPPER, less the share that truncation may take; perhaps <= 0."""
    return (delta * (1 - NEGLECTED) if side is UPPER else delta) - total_infinity_mass(counts)


# Privacy loss distributions: certified upper and lower bounds on epsilon and delta.
# Per direction: find the order t that gives the best moment bound, tilt by e^{t loss}, put each different step on a
# grid fine enough for its number of copies, and raise it to that power in rounds of 16. After a round the loss is
# wider, so the grid is coarsened with it: the cost grows like the logarithm of the number of steps. All that is cut,
# wrapped or rounded is added to (upper) or taken from (lower) delta. Sources: Koskela, Jälkö, Honkela 2020
# (1906.03049); Gopi, Lee, Wutschitz 2021 (2106.02848); Doroshenko et al. 2022 (2207.04380).
# `counts` is always: the steps of one direction and how often each occurs.
# Source: docs/theory.md, Theorem 9.3 and Theorem 9.6.


# Widths are relative distances of the upper from the lower bound on epsilon.
WORST_WIDTH = 2e-4  # a wider interval calls for a second attempt
WIDEST = 1.5 * WORST_WIDTH  # largest aim where many different steps share it
RELATIVE_WIDTH = 1.2e-5  # aim of the first attempt
ROUGH_WIDTH = 1e-4  # aim where the bound only decides whether another release costs more
MANY_WIDER = 16.0  # largest factor on the aim for many different steps, among which it is shared
_FEW_STEPS = 4  # different steps for which LOWER alone is as sharp as UPPER: its steps are merged one by one
_COARSER, _COARSER_ATTEMPTS = 4.0, 4  # factor on the budget of what does not fit in memory, and how often
STEEPEST = 1 / RELATIVE_WIDTH  # tilt times epsilon above which a change of epsilon within the aim changes delta by e
_ATTEMPTS = 12  # at finding the magnitude of delta; each may lower it by a factor of 100
_TINY = 1e-280  # a delta below which there is none: moments leave out less than that, rdp._FLOORS


def epsilon_bounds(
    counts: Steps, *, delta: float, sides: tuple[BoundSide, ...], width: float = RELATIVE_WIDTH
) -> tuple[float, ...]:
    """Return a certified bound on epsilon >= 0 per side: closed forms if all sides have one, else by a grid."""
    # UPPER is never below, LOWER never above the exact value; 0 for no steps.
    if not counts:
        return tuple(0.0 for _ in sides)
    ends = (closed_form_epsilon(counts, delta=delta, is_upper=side is UPPER) for side in sides)
    known = tuple(end for end in ends if end is not None)
    return known if len(known) == len(sides) else grid_epsilon_bounds(counts, delta, sides, width)


def grid_epsilon_bounds(
    counts: Steps, delta: float, sides: tuple[BoundSide, ...], width: float = RELATIVE_WIDTH
) -> tuple[float, ...]:
    """Return a bound on epsilon per side by composing on a grid; inf (LOWER: 0) if infinity mass uses up delta."""
    if UPPER not in sides:
        # Rounding down many steps costs several times the upper end; it only tells how far that is from the truth.
        width *= min(max(len(counts) / _FEW_STEPS, 1.0), MANY_WIDER)
    truncated_mass = NEGLECTED * delta / segment_ends(counts)
    best = best_epsilon(counts, delta=delta * (1 - NEGLECTED), truncated_mass=truncated_mass)
    if best.value == math.inf:
        return tuple(math.inf if side is UPPER else 0.0 for side in sides)
    if best.value <= 0:
        return tuple(0.0 for _ in sides)
    capped = rare_event_bounds(
        counts,
        best.moments,
        delta=delta,
        truncated_mass=truncated_mass,
        epsilon_upper=best.value,
        sides=sides,
        width=width,
    )
    if capped is not None:
        return capped

    # Many different steps share the aim, each rounded by itself: a larger one keeps the work in bounds.
    tilt = min(best.order, STEEPEST / best.value)
    aim = min(width * min(math.sqrt(len(counts)), MANY_WIDER), max(width, WIDEST)) * max(tilt * best.value, 1.0)
    settings = Resolution(tilt=tilt, budget=aim, truncated_mass=truncated_mass)
    coarser_attempts = _COARSER_ATTEMPTS if UPPER not in sides else 0  # LOWER alone, if it does not fit in memory
    while True:
        try:
            composed = composed_loss(counts, best.moments, settings, sides)
            break
        except TooLargeError:
            if not coarser_attempts:
                raise
            coarser_attempts -= 1
            settings = replace(settings, budget=_COARSER * settings.budget)

    ends = []
    for side, loss in zip(sides, composed, strict=True):
        finite_delta = delta_of_finite_losses(counts, delta, side)
        bound = epsilon_at_delta(loss, finite_delta, side)
        # A second attempt takes the tilt for that slope. Where rare large losses forbid the tilt that fits epsilon they
        # differ: then the cells must be finer, and the round-off of the transforms may matter, too.
        # The order that acts at epsilon, over the tilt.
        local = bound.steepness / max(settings.tilt * bound.epsilon, 1e-300)
        budget = max(WORST_WIDTH * bound.steepness / max(local, 1.0) ** 2, settings.budget / 16)
        is_rough = bound.roundoff > ROUNDED * bound.steepness
        if bound.epsilon and (is_rough or budget < settings.budget / 2):
            finer = replace(settings, budget=min(budget, settings.budget), has_long_doubles=is_rough)
            with suppress(ConvergenceError):  # what does not fit in memory leaves the end there is
                bound = epsilon_at_delta(composed_loss(counts, best.moments, finer, (side,))[0], finite_delta, side)
        ends.append(min(best.value, largest_loss(counts), bound.epsilon))
    return tuple(ends)


def delta_bounds(counts: Steps, *, epsilon: float, sides: tuple[BoundSide, ...]) -> tuple[float, ...]:
    """Return a certified bound on delta in [0, 1] per side: closed forms if all sides have one, else by a grid."""
    # UPPER is never below, LOWER never above the exact value; 0 for no steps, (1e-280, 0) for less.
    if not counts:
        return tuple(0.0 for _ in sides)
    ends = (closed_form_delta(counts, epsilon=epsilon, is_upper=side is UPPER) for side in sides)
    known = tuple(end for end in ends if end is not None)
    if len(known) == len(sides):
        return known
    infinity_mass = total_infinity_mass(counts)
    if epsilon >= largest_loss(counts) and not infinity_mass:
        return tuple(0.0 for _ in sides)  # pure steps
    rough = best_delta(counts, epsilon=epsilon).value
    if rough < _TINY:
        return tuple(_TINY if side is UPPER else 0.0 for side in sides)

    def composed_delta(side: BoundSide) -> float:
        # The mass to leave out must be small against a delta that is not known yet: from the moment bound downwards.
        end = max(min(1.0, rough) - infinity_mass, _TINY)
        for _ in range(_ATTEMPTS):
            neglected = 1e-5 * end
            truncated_mass = neglected / segment_ends(counts)
            best = best_delta(counts, epsilon=epsilon, truncated_mass=truncated_mass)
            if best.value - infinity_mass < neglected:
                end = max(best.value - infinity_mass, 1e-16 * infinity_mass) + neglected
                continue
            tilt = min(best.order, STEEPEST / max(epsilon, 1e-300))
            composed = _composed_for_delta(counts, best.moments, tilt, truncated_mass, side)
            divergence = delta_at_epsilon(composed, epsilon, side)
            if divergence > (0.01 * end if side is UPPER else 0.0):
                return min(end, divergence + neglected) if side is UPPER else divergence
            end = 0.01 * end + neglected
        return max(end, _TINY) if side is UPPER else 0.0

    return tuple(min(1.0, infinity_mass + composed_delta(side)) for side in sides)


def _composed_for_delta(
    counts: Steps, moments: ComposedMoments, tilt: float, truncated_mass: float, side: BoundSide
) -> ComposedLoss:
    """Return the composed loss to bound delta; the grid is finer for a tilt near 0 if that fits in memory."""
    # Under a tilt t rounding by h costs t (t + 1) h^2 / 2. Where delta is near 1 the tilt is next to 0, and losses
    # rounded as freely as that allows would say nothing: they are kept exact to about a tenth where that fits.
    settings = Resolution(tilt=tilt, budget=1e-4, truncated_mass=truncated_mass)
    finer = replace(settings, budget=1e-4 * min(1.0, 50 * tilt * (tilt + 1)))
    try:
        return composed_loss(counts, moments, finer, (side,))[0]
    except ConvergenceError:
        if finer == settings:
            raise
        return composed_loss(counts, moments, settings, (side,))[0]


def upper_profile(counts: Steps, *, around: float, min_difference: float = 1.0) -> Callable[[Array], Array]:
    """Return upper bounds on delta, at most 1, as a function of epsilons >= 0, tight near `around`; 0 for no steps."""
    # They are read from one composed loss by sums that are made once; ConvergenceError if that is too large.
    if not counts:
        return np.zeros_like
    infinity_mass = total_infinity_mass(counts)
    neglected = 1e-5 * min(max(best_delta(counts, epsilon=around).value - infinity_mass, 1e-40), min_difference, 1.0)
    truncated_mass = neglected / segment_ends(counts)
    best = best_delta(counts, epsilon=around, truncated_mass=truncated_mass)
    pmf, slack = _composed_for_delta(counts, best.moments, best.order, truncated_mass, UPPER)
    losses, masses, _ = untilted_masses(pmf, UPPER, slack)
    losses, masses = losses[losses > 0], masses[losses > 0]
    discounted = masses * np.exp(np.minimum(around - losses, LARGE))
    sums, discounted_sums = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (masses, discounted))

    def delta(epsilons: Array) -> Array:
        first = np.searchsorted(losses, epsilons, side="right")
        exact = sums[first] - np.exp(np.minimum(epsilons - around, LARGE)) * discounted_sums[first]
        rounded = 8 * losses.size * UNIT_ROUNDOFF * sums[first]
        error = divergence_error(pmf) * np.exp(np.minimum(pmf.log_norm + slack - pmf.tilt * epsilons, LARGE))
        return np.minimum(np.maximum(exact, 0.0) + rounded + error + (neglected + infinity_mass), 1.0)

    return delta


def pld(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the certified upper bound on epsilon of one direction by closed form or PLD; else ConvergenceError."""
    # It is within about 3e-5 relative of the exact value of the composed one-step bound.
    return AccountantResult(epsilon=epsilon_bounds(counts, delta=delta, sides=(UPPER,))[0])


# The default accountant: pld where it answers, else rdp, or another one where that is smaller.

_OTHERS: tuple[Accountant, ...] = (rdp, rdp_classic, optimal, advanced, basic)
_NAMED = 1e-6  # relative gain over pld from which the accountant that has it is named; less is pld's own rounding


def auto(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the smallest bound of all accountants, where pld is not surely it, else that of `pld`."""
    # An upper bound; its note is the name of the accountant.
    best, name = math.inf, "rdp"
    try:
        best, name = pld(counts, delta=delta).epsilon, "pld"
    except WorkExceededError:
        raise
    except (ArithmeticError, UnsupportedError):  # of the first ConvergenceError is one
        best = rdp(counts, delta=delta).epsilon
    if best in {0.0, math.inf} or (name == "pld" and segment_ends(counts) > sum(counts.values())):
        return AccountantResult(epsilon=best, note=name)
    # Steps that are noise on no line, few losses or divergences alone: there the other accountants take no time, and
    # pure steps, or next to no delta, may leave one of them below.
    for other in _OTHERS:
        with suppress(ArithmeticError, UnsupportedError):  # also where the work is used up: there is an answer
            epsilon = other(counts, delta=delta).epsilon
            if epsilon < best * (1 - (_NAMED if name == "pld" else 0.0)):
                name = other.__name__.replace("_", "-")
            best = min(best, epsilon)
    return AccountantResult(epsilon=best, note=name)


# The direction, D||D' or D'||D, that costs most.


def worst_direction(
    steps: Mapping[str, Steps],
    accountant: Accountant,
    *,
    delta: float,
    moment_bound: Callable[[Steps], float] | None = None,
) -> tuple[AccountantResult, str]:
    """Return (largest result, its direction); pld and auto skip directions that a cheap upper bound rules out."""
    # Epsilon is 0 where nothing is released.

    def answer(counts: Steps) -> AccountantResult:
        return accountant(counts, delta=delta) if counts else AccountantResult(epsilon=0.0)

    def ceiling(counts: Steps) -> float:  # a closed form where one applies, else the moment bound
        exact = closed_form_epsilon(counts, delta=delta, is_upper=True) if counts else 0.0
        if exact is not None:
            return exact
        return moment_bound(counts) if moment_bound else trimmed_epsilon(counts, delta=delta).value

    def sharper_ceiling(counts: Steps) -> float:  # at half the cost of `pld`; inf where the composition fails
        try:
            return epsilon_bounds(counts, delta=delta, sides=(UPPER,), width=ROUGH_WIDTH)[0]
        except (ArithmeticError, UnsupportedError):
            return math.inf

    cost = attrgetter("epsilon")
    if accountant not in {pld, auto}:
        return costliest_release(steps, answer=answer, cost=cost, ceiling=lambda _: math.inf)
    return costliest_release(steps, answer=answer, cost=cost, ceiling=ceiling, sharper_ceiling=sharper_ceiling)
