"""Random allocation: in each pass every unit takes part in one step, chosen at random ("balls in bins").

Source: docs/theory.md, Theorem 7.6 and Theorem 7.7.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Bound
from dpcalc.amplification.schedule import PhaseBound, step_profile
from dpcalc.errors import TooLargeError, WorkExceededError
from dpcalc.losses.atoms import chain_of, composed
from dpcalc.losses.likelihood_ratio import mean_pair
from dpcalc.losses.loss import Loss, LossCurve
from dpcalc.losses.moments import Steps, together
from dpcalc.losses.ratio_lattice import Estimate
from dpcalc.sampling.schemes import AllocatedPass
from dpcalc.work import cached_with_cost

_MAX_BINS = 10**8  # ratios in a sum: lattice points of more are no longer exact in float64
_SHORT_CHAIN = 16  # links that are chained one by one, which loses least
Bins = tuple[tuple[LossCurve, int], ...]
"""((loss of all steps of one bin for a unit in it, number of such bins), ...)."""


@cached_with_cost(256)
def allocated_pass(bins: Bins, estimate: Estimate, *, share: float = 1.0) -> Loss:
    """Return the loss of a pass in which a unit takes part, with probability `share`, in one bin chosen at random.

    UPPER: a bound in both directions, for any order in which the steps depend on each other.
    """
    if sum(number for _, number in bins) > _MAX_BINS:
        if estimate is not Estimate.UPPER or len(bins) > 1:
            raise TooLargeError(f"bins: expected at most {_MAX_BINS:.0e} for this bound, got more")
        # A mean of fewer independent ratios is larger in convex order: the cost of fewer bins is an upper bound.
        bins = ((bins[0][0], _MAX_BINS),)
    return mean_pair(bins, estimate, share=share)


def pass_losses(
    passes: Sequence[AllocatedPass], loss: Callable[[int], LossCurve], estimate: Estimate
) -> tuple[tuple[Loss, int], ...]:
    """Return (loss of a pass, number of such passes) for all passes, where `loss(n)` is the loss of a bin of n
    steps."""
    return tuple(
        (
            allocated_pass(
                tuple((loss(steps), number) for number, steps in each_pass.bins), estimate, share=float(each_pass.share)
            ),
            each_pass.number,
        )
        for each_pass in passes
    )


def allocated_steps(
    phase_bound: PhaseBound,
    steps: int,
    loss: Callable[[int], Loss],
    later_loss: Callable[[Bound], Loss],
) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of a phase in which units choose their steps at random.

    All passes are composed or, if the choice is revealed, the unit's visits; each loss is chained by the bound's links.

    Source: docs/theory.md, Theorem 7.6 and Theorem 7.7.
    """
    allocation, links = phase_bound.allocation, phase_bound.links
    if allocation is None:
        raise LookupError("allocation: expected the scheme by which units choose their steps, got none")
    if phase_bound.later:
        chain = [_as_atoms(each) for each in (loss(1), *map(later_loss, phase_bound.later))]
        linked: list[tuple[Loss, int]] = [(chain_of(chain), allocation.visits(steps))]
    elif phase_bound.is_revealed:
        visits = allocation.visits(steps) * max(1, phase_bound.units_together)
        visit = loss(1)
        linked = [(visit if links == "-" else _linked(_as_atoms(visit), links), visits)]
    else:
        passes = pass_losses(allocation.passes(steps), loss, Estimate.UPPER)
        linked = [(_linked(curve, links), number) for curve, number in passes]
    linked = [(curve, number) for curve, number in linked if number]
    ahead: list[Steps] = [{curve: number} for curve, number in linked]
    return together(ahead), together({curve.swapped: number} for curve, number in linked)


def _as_atoms(single: Loss) -> Loss:
    """Return an upper bound on the loss of a step as atoms, for a chain couples losses one by one."""
    return allocated_pass(((single, 1),), Estimate.UPPER) if single.segments else single


def allocated_gaussian_steps(phase_bound: PhaseBound, *, steps: int, noise_multiplier: float) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of allocated Gaussian steps, by `hidden_or_revealed`."""
    loss_of = partial(step_profile, noise_multiplier=noise_multiplier)

    def releases(phase_bound: PhaseBound) -> tuple[Steps, Steps]:
        bound = phase_bound.bound
        chain = (bound, *phase_bound.later) if phase_bound.later else (bound,) * len(phase_bound.links)
        sure = [each for each in chain if isinstance(each, StepBound) and each.inclusion == 1]
        if phase_bound.is_revealed and len(chain) > 1 and len(sure) == len(chain):
            # Shifts of one Gaussian add up: exact, where a chain of bounded losses would lose a little.
            far = loss_of(replace(sure[0], shift=sum(each.shift for each in sure)))
            return allocated_steps(replace(phase_bound, links="-", later=()), steps, lambda _: far, loss_of)
        single = loss_of(bound)

        def loss_of_bin(repeats: int) -> Loss:
            # Steps of one bin follow each other: Gaussian ones cost as one with less noise, others are composed.
            if repeats == 1:
                return single
            if isinstance(bound, StepBound) and bound.inclusion == 1:
                return step_profile(bound, noise_multiplier=noise_multiplier / math.sqrt(repeats))
            return repeated_loss(allocated_pass(((single, 1),), Estimate.UPPER), repeats)

        return allocated_steps(phase_bound, steps, loss_of_bin, loss_of)

    return hidden_or_revealed(phase_bound, releases)


def hidden_or_revealed(
    phase_bound: PhaseBound, releases: Callable[[PhaseBound], tuple[Steps, Steps]]
) -> tuple[Steps, Steps]:
    """Return `releases(phase_bound)` or, if that raises a TooLargeError, those with the choice of steps revealed."""
    try:
        return releases(phase_bound)
    except TooLargeError as error:
        if isinstance(error, WorkExceededError) or phase_bound.is_revealed:
            raise
        # Nearly all losses are larger than a float holds: hiding the step saves next to nothing.
        return releases(replace(phase_bound, is_revealed=True))


def _linked(curve: Loss, links: str) -> Loss:
    """Return a chain of `curve` per "-" and its swapped per "+" in `links`; TypeError if it cannot be chained."""
    if links == "-":
        return curve
    if curve.segments:
        raise TypeError(f"links: expected a loss with finitely many values, got {curve!r}")
    runs = ((curve, links.count("-")), (curve.swapped, links.count("+")))
    return chain_of([_chained_times(pair, number) for pair, number in runs if number])


def _chained_times(pair: Loss, number: int) -> Loss:
    """Return the chain of `number` >= 1 equal pairs, built from two chains of half the length if it is over 16."""
    if number <= _SHORT_CHAIN:
        return chain_of([pair] * number)
    half = _chained_times(pair, number // 2)
    return chain_of([half, half, *[pair] * (number % 2)])


def repeated_loss(curve: Loss, steps: int) -> Loss:
    """Return an upper bound on the loss of `steps` independent releases, by repeated squaring; ValueError for
    0 steps."""
    # By squaring: each product thins its factors to 501 losses, so that fewer products lose less.
    result, power = None, curve
    while steps:
        if steps % 2:
            result = power if result is None else composed(result, power)
        steps //= 2
        power = composed(power, power) if steps else power
    if result is None:
        raise ValueError("steps: expected at least 1, got 0")
    return result
