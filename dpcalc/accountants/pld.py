"""Privacy loss distributions: certified upper and lower bounds on epsilon and delta.

Per direction: find the order t that gives the best moment bound, tilt by e^{t loss}, put each different
step on a grid fine enough for its number of copies, and raise it to that power in rounds of 16. After a
round the loss is wider, so the grid is coarsened with it: the cost grows like the logarithm of the
number of steps. All that is cut, wrapped or rounded is added to (upper) or taken from (lower) delta.
Sources: Koskela, Jälkö, Honkela 2020 (1906.03049); Gopi, Lee, Wutschitz 2021 (2106.02848); Doroshenko et
al. 2022 (2207.04380).

`counts` is always: the steps of one direction and how often each occurs.

Source: docs/theory.md, Theorem 9.3 and Theorem 9.6.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

import numpy as np

from dpcalc.accountants.basic import advanced, basic, optimal
from dpcalc.accountants.composed_loss import (
    LARGE,
    UPPER,
    BoundSide,
    ComposedLoss,
    composed_loss,
    delta_at_epsilon,
    divergence_error,
    epsilon_at_delta,
    untilted_masses,
)
from dpcalc.accountants.gaussian import closed_form_delta, closed_form_epsilon
from dpcalc.accountants.rare_events import NEGLECTED, ROUNDED, delta_of_finite_losses, rare_event_bounds
from dpcalc.accountants.rdp import best_delta, best_epsilon, rdp, rdp_classic, trimmed_epsilon
from dpcalc.accountants.result import Accountant, AccountantResult, costliest_release
from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError, TooLargeError, UnsupportedError, WorkExceededError
from dpcalc.losses.cells import Resolution
from dpcalc.losses.moments import ComposedMoments, Steps, largest_loss, segment_ends, total_infinity_mass
from dpcalc.numerics.convolution import UNIT_ROUNDOFF

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
