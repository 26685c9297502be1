"""From one-step bounds to the steps of a whole phase, in both directions: redraw periods, passes, chosen steps.

Source: docs/theory.md, Theorem 2.6, Theorem 4.3, Theorem 7.6 and Theorem 7.7.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np

from dpcalc.amplification.bound import (
    Average,
    Bound,
    CountPair,
    ExchangedPair,
    JointStepBound,
    StepBound,
    joint_profile,
    unamplified,
)
from dpcalc.amplification.groups import Group
from dpcalc.amplification.mates import MAX_CENTERS, MatesAverage, hidden_mates_profile, merge_close_parts
from dpcalc.errors import InputError, TooLargeError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.atoms import (
    MAX_LOSSES,
    approximate_pair,
    chain_of,
    composed,
    glued,
    of_cells,
    public_mixture,
    symmetric_pair,
)
from dpcalc.losses.cells import Resolution, cells, discretize_pessimistic
from dpcalc.losses.composition import LossPmf, SplitPmf, powers
from dpcalc.losses.likelihood_ratio import Estimate, mean_pair
from dpcalc.losses.loss import Loss, LossCurve, of_falling_pair, of_two_halves, under_draw
from dpcalc.losses.moments import RdpCurve, Steps, repeated, together, under_public_draw
from dpcalc.losses.pair import half_line_end
from dpcalc.mechanisms.black_box import PateMechanism
from dpcalc.numerics import Array, sum_by_index
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import AllocatedPass, Allocation, CheckIn, Shuffle
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

# PATE: the answers of teachers, whatever the votes are (docs/theory.md, Theorem 12.1)
#
# A unit of the first level is a teacher with all its data. Neighbouring data sets differ in the data of one teacher at
# most, whose vote moves from one label to another, or is missing.


def ensemble_refusal(mechanism: PateMechanism, hierarchy: Hierarchy) -> str:
    """Return why no bound covers PATE here, for episodes or a level not drawn by `all`; "" otherwise."""
    if hierarchy.episodes is not None:
        return f"expected teachers who all vote with {mechanism.name}, got constructed tasks"
    for level in hierarchy.levels:
        if not level.scheme.is_whole:
            return f"expected scheme all at every level with {mechanism.name}, got {level.scheme.name} ({level.name})"
    return ""


def query_steps(mechanism: PateMechanism, *, group_size: int, queries: int) -> Steps:
    """Return `queries` repeats of the curves that dominate one answer of PATE teachers, in either direction.

    Source: docs/theory.md, Theorem 12.1.
    """
    return together({curve: queries} for curve in mechanism.dominating_curves(group_size))


# Profiles of steps, and releases of phases.

_UNLIKE_MATES = 1 / 2  # share of delta for mates whose outputs are unlike the unit's
_INFINITE, _TRIES = 0.4, 4  # share of delta for infinite losses of a group, and how often it is sought
_PROFILE_WORK = 200 * TURN  # of the exact weights of one profile, as floats


def glued_profile(bound: StepBound, *, noise_multiplier: float) -> Loss:
    """Return the profile of a StepBound in the direction D||D', an upper bound; its `swapped` is for D'||D.

    Source: docs/theory.md, Theorem 2.6.
    """
    own, other = (replace(pair, deviation=noise_multiplier) for pair in bound.unit_noise_pairs)
    return of_two_halves(own=own, other=other, ends=(bound.shift / 2,) * 2)


_FARTHEST = 1e12  # clip norms to an end of a half-line at epsilon 0, where next to nothing tells the two sides apart


def step_profile(bound: Bound, *, noise_multiplier: float) -> Loss:
    """Return the upper privacy profile of a step under Gaussian noise; close parts of a MatesAverage are
    merged first."""
    told: Average | None = None
    if isinstance(bound, MatesAverage):
        # Where batches are shared at two levels, merged parts are left for the farthest losses alone.
        is_nested = any(isinstance(part, StepBound) and len(part.shared) > 1 for _, part in bound.parts)
        told, centers = (bound, MAX_CENTERS // 3) if is_nested else (None, MAX_CENTERS)
        bound = merge_close_parts(bound, noise_multiplier=noise_multiplier, max_centers=centers)
    spend(_PROFILE_WORK * (len(bound.parts) if isinstance(bound, Average) else 1))
    match bound:
        case JointStepBound():
            return joint_profile(bound, glued_profile(bound, noise_multiplier=noise_multiplier))
        case StepBound():
            return glued_profile(bound, noise_multiplier=noise_multiplier)
        case CountPair():
            return of_falling_pair(replace(bound.unit_noise_pairs[0], deviation=noise_multiplier))
        case ExchangedPair():
            own, back = (replace(pair, deviation=noise_multiplier) for pair in bound.unit_noise_pairs)
            if not bound.is_glued:
                return of_falling_pair(own)
            end = max(half_line_end(bound.contents(noise_multiplier), float(bound.other[-1][0]), 0.0), -_FARTHEST)
            return of_two_halves(own=own, other=back, ends=(0.0, 0.0) if own == back else (end, -end))
        case Average(parts=((chance, part),)) if chance == 1 and told is None:
            return step_profile(part, noise_multiplier=noise_multiplier)
        case Average(parts=parts):
            plain = under_draw(
                [(float(chance), step_profile(part, noise_multiplier=noise_multiplier)) for chance, part in parts]
            )
            return hidden_mates_profile(told or bound, plain, noise_multiplier=noise_multiplier)


# Redraw periods (docs/theory.md, Theorem 7.1)
#
# T steps under one draw of the protected level cost as much as one with all distances times sqrt(T). Ancestors that
# are held for longer are revealed; the product of all rates would claim too much amplification.


@dataclass(frozen=True, kw_only=True)
class PhaseBound:
    """A one-step bound and the redraw periods of the phase to which it applies, for one protected unit or group."""

    bound: Bound  # of one step, or of all steps of one held draw when `hold` > 1
    moves: tuple[int, ...] = (1,)  # factors on the distances of `bound` in the steps of a pass; their squares add up
    hold: int = 1  # redraw period of the protected level, in steps
    # (rate, redraw period) of the public draws above that are held for longer, outermost first
    revealed: tuple[tuple[Fraction, int], ...] = ()
    steps_of_a_pass: int = 1  # number of steps in which the unit takes part once; 1 without a shuffle
    # how the unit, or one above it, chooses its steps; `bound` is then that of a step it takes part in
    allocation: Allocation | CheckIn | None = None
    is_revealed: bool = False  # True if the steps that an allocation chooses are taken to be public
    # of an allocation: the changes, each covered by `bound`, that lead from D to D'; "-" in its direction (a removal),
    # "+" against it (an addition)
    links: str = "-"
    # the bounds of the links after the first, where they are not `bound`; () or one for each
    later: tuple[Bound, ...] = ()
    units_together: int = 0  # of an allocation: 0, or the bound is of the whole group, in each visit of so many units
    is_gaussian_alone: bool = False  # True if the bound holds for Gaussian noise alone
    # of passes whose order is secret: (chance, batches over which the unit's place is uniform); `bound` is then that of
    # a step that holds the unit
    secret: tuple[tuple[Fraction, int], ...] = ()
    # of passes whose order is secret: the bound of a step with another unit in the place of the unit
    mates: Bound | None = None

    @property
    def squared(self) -> int:
        """Factor on all squared distances of `bound`."""
        return sum(move**2 for move in self.moves)

    @property
    def plain(self) -> StepBound | None:
        """The bound (K), with the largest distances, if every step is one fresh draw without passes; else None."""
        bound = self.bound.largest if isinstance(self.bound, MatesAverage) else self.bound
        is_fresh = self == PhaseBound(bound=self.bound)
        return bound if is_fresh and isinstance(bound, StepBound) else None

    def one_of(self, units: int) -> "PhaseBound":
        """Return the bound, in which a MatesAverage knows that `units` share the work; other bounds unchanged."""
        if not isinstance(self.bound, MatesAverage):
            return self
        return replace(self, bound=replace(self.bound, units=units))


def unamplified_phase(phase_bound: PhaseBound) -> PhaseBound:
    """Return the bound of steps that surely draw the unit, each link at the largest shift of any; draws are public."""
    sure = max(map(unamplified, (phase_bound.bound, *phase_bound.later)), key=lambda bound: bound.max_shift)
    return replace(phase_bound, bound=sure, later=(), revealed=(), is_revealed=True)


def phase_steps(phase_bound: PhaseBound, *, steps: int, noise_multiplier: float) -> tuple[Steps, Steps]:
    """Return the Gaussian steps (D||D', D'||D) of a phase: T steps under one draw are one at sigma / sqrt(T).

    Source: docs/theory.md, Theorem 7.1 and Theorem 7.3.
    """
    passes = -(-steps // phase_bound.steps_of_a_pass)
    bound, squared = phase_bound.bound, phase_bound.squared
    # Steps under one draw shift their outputs alike: together they cost one step with all distances times a root.
    return steps_under_draws(
        passes,
        phase_bound.revealed,
        phase_bound.hold,
        lambda length: step_profile(bound, noise_multiplier=noise_multiplier / math.sqrt(squared * length)),
    )


def secret_pass_steps(
    phase_bound: PhaseBound, loss: Callable[[Bound], Loss], *, steps: int, delta: float
) -> tuple[Steps, Steps] | None:
    """Return the steps (D||D', D'||D) of passes whose order is secret; None where they are not amplified.

    `loss` gives that of one step from its bound.

    Source: docs/theory.md, Theorem 7.10.
    """
    if phase_bound.mates is None:
        raise TypeError("secret_pass_steps: expected a secret order, got the bound of another draw")
    passes = -(-steps // phase_bound.steps_of_a_pass)
    step, mates = loss(phase_bound.bound), loss(phase_bound.mates)
    whole = _chained_pass(step, mates, phase_bound.secret, len(phase_bound.links), delta, passes)
    return None if whole is None else ({whole: passes}, {whole.swapped: passes})


@cached_with_cost(64)
def _chained_pass(
    step: Loss, mates: Loss, places: tuple[tuple[Fraction, int], ...], links: int, delta: float, passes: int
) -> Loss | None:
    """Return a pass for a group of `links` units that change one by one; one for all placements of a group."""
    budget = _UNLIKE_MATES * delta / (passes * links)
    for _ in range(_TRIES):
        one = shuffled_pass(step, mates, places, budget)
        if one is None:
            return None
        whole = chain_of([one] * links)
        # Infinite losses grow along a chain: they may take a part of delta, and else the pass has fewer of them.
        excess = whole.infinity_mass * passes / (_INFINITE * delta)
        if links == 1 or excess <= 1:
            break
        budget /= 5 * excess
    return whole


def steps_under_draws(
    length: int, revealed: tuple[tuple[Fraction, int], ...], hold: int, curve: Callable[[int], Loss | RdpCurve]
) -> tuple[Steps, Steps]:
    """Return `length` steps (D||D', D'||D), nested in the periods of the public draws around them; `curve(n)` is the
    loss of n held steps."""
    curve = cache(curve)

    def nested(length: int, revealed: tuple[tuple[Fraction, int], ...], *, is_swapped: bool) -> Steps:
        period = revealed[0][1] if revealed else hold
        whole, remaining = divmod(length, period)
        parts: list[Steps] = []
        for steps, number in ((period, whole), (remaining, 1)):  # the last, shorter period counts as well
            if not steps or not number:
                continue
            if revealed:
                inner = nested(steps, revealed[1:], is_swapped=is_swapped)
                parts.append(repeated(under_public_draw(inner, float(revealed[0][0])), number))
            else:
                parts.append({curve(steps).swapped if is_swapped else curve(steps): number})
        return together(parts)

    return nested(length, revealed, is_swapped=False), nested(length, revealed, is_swapped=True)


# Passes over shuffled units (docs/theory.md, Theorem 7.3 and Theorem 7.4)
#
# The order of a pass is revealed. When a unit is removed, the last unit of the order takes its place: one batch has
# another unit in it, distance own + sibling, and the last batch lacks one, distance sibling. With drop_last a pass of m
# steps of n units holds m n of the N units, and whether it holds the unit is a fixed draw of m n out of N.
#
# Passes under different parents need not begin together. For groups under several parents only the passes of the
# outermost shuffle are counted, and none is taken to leave anybody out. Members in different steps of a pass cost no
# more than in one step: the likelihood ratio of two independent sums is below that of one sum in convex order.
#
# All of this needs passes of equal length in D and D'. A removal that takes a step from the pass of D' may change every
# later batch; then the unit above is replaced as a whole, or the run is refused.


_MAX_LEFT_OUT = 100  # largest group of which a pass may leave some out: the mixture takes 1 s, for 1,000 members 15 s
_MAX_SIZE_CHANGE = 1000  # distance from the batch size up to which a refusal searches for one to advise


def is_shuffled(path: Path) -> bool:
    """Return True if the protected level of a path, or one above it, is shuffled."""
    return any(scheme.is_shuffled for scheme in path.schemes)


def pass_as_draw(path: Path, group: Group) -> Path:
    """Return the path with each pass as one draw: `all`, or fixed if the last shuffle leaves units out.

    A pass of the innermost shuffle that drops its last batch is a fixed draw; all other passes draw every unit. So does
    the innermost one for a group under several parents, and for a group above `_MAX_LEFT_OUT`.
    """
    last = max((at for at, scheme in enumerate(path.schemes) if scheme.is_shuffled), default=0)
    is_revealed = (last > 0 and not group.is_together) or group.size > _MAX_LEFT_OUT
    return path.with_whole_passes if is_revealed else one_pass(path)


def bound_per_pass(phase_bound: PhaseBound, path: Path, *, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return `phase_bound` by pass: a sure shift by the pass's distance if a pass holds all units, else its own bound.

    If each pass holds every unit of the protected level, one Gaussian release with the squared distance of the
    pass; else the bound of the draw, for each pass.

    Source: docs/theory.md, Theorem 7.3 and Theorem 7.4.
    """
    length = steps_of_a_pass(path, group)
    last = path.schemes[-1]
    if not last.is_shuffled or pass_as_draw(path, group).rate(len(path.counts)) < 1:
        return replace(phase_bound, steps_of_a_pass=length)
    # Steps of one pass are independent Gaussian releases whose order is public: they cost as much as one release with
    # the sum of their squared distances.
    own, is_clipped_above = path.contributions[-1], clip < len(path.counts)
    if adjacency is Adjacency.ADD_REMOVE:
        sibling = moved = path.siblings[-1]  # `moved`: distance of the last batch, which the unit's stand-in left
        if is_clipped_above:
            own, sibling, moved = 1, 1, 2
        moves = [group.size * each for each in (own + sibling, *([] if last.drop_last else [moved]))]
    else:
        distance = 2 * (1 if is_clipped_above else own)
        if adjacency is Adjacency.ZERO_OUT and not is_clipped_above:
            distance = own
        # The largest sum over batches of squared numbers of members: only members of one parent fill batches.
        full, remaining = divmod(group.size, last.size) if group.is_together else (0, group.size)
        moves = [distance * members for members in (*[last.size] * full, remaining) if members]
    return replace(phase_bound, bound=StepBound.sure(1), moves=tuple(moves), steps_of_a_pass=length)


def steps_of_a_pass(path: Path, group: Group) -> int:
    """Return the number of steps of one pass over shuffled levels; 1 without a shuffle."""
    schemes = zip(path.schemes, path.counts, strict=True)
    lengths = [scheme.steps_of_a_pass(count) for scheme, count in schemes if scheme.is_shuffled]
    return math.prod(lengths if group.is_together else lengths[:1])


def is_shortened(hierarchy: Hierarchy, *, unit: int, adjacency: Adjacency, group: Group) -> bool:
    """Return True if removing what is protected (add-remove) can take a step from a pass over its level, or shift one
    below it."""
    level = hierarchy.level(unit)
    if adjacency is not Adjacency.ADD_REMOVE:
        return False
    return _shifts_turns(hierarchy, unit) or hierarchy.loses_steps(unit, level.scheme, max(group.by_frame))


def _shifts_turns(hierarchy: Hierarchy, unit: int) -> bool:
    """Return True if a removal gives a turn to a unit that a pass left out, whose own pass then runs ahead for good."""
    is_passed_below = any(below.scheme.is_shuffled for below in hierarchy.levels[unit:])
    scheme = hierarchy.level(unit).scheme
    return scheme.is_shuffled and scheme.drop_last and is_passed_below


def shortened_pass_error(hierarchy: Hierarchy, *, unit: int, group: Group) -> InputError:
    """Return the InputError for a shuffled level whose passes lose a step to a removal, with remedies in its
    message."""
    level, removed = hierarchy.level(unit), max(group.by_frame)
    if not isinstance(level.scheme, Shuffle):
        raise TypeError(f"level {level.name}: expected a shuffle, got {level.scheme.name}")
    if _shifts_turns(hierarchy, unit):
        return InputError(
            f"level {level.name}: expected `drop_last: false` above another shuffle with add-remove, got true: "
            "a removal gives a turn to a unit that was left out, whose own pass then differs in all later steps; use "
            "adjacency zero-out or replace-one, set drop_last: false or draw the level below by another scheme"
        )
    counted = f"{level.count:,}" if level.is_equal else f"{level.min_count:,} to {level.count:,}"
    drawn = f"size {level.scheme.size:,}{' and drop_last' if level.scheme.drop_last else ''}"
    units = "1 unit is" if removed == 1 else f"{removed} units are"
    ways = ["use adjacency zero-out or replace-one"]
    other = replace(level.scheme, drop_last=not level.scheme.drop_last)
    if not hierarchy.loses_steps(unit, other, removed):
        ways.append(f"set drop_last: {str(other.drop_last).lower()}")
    nearest = (level.scheme.size + sign * apart for apart in range(1, _MAX_SIZE_CHANGE) for sign in (-1, 1))
    for size in nearest:
        fits = 1 <= size <= level.min_count
        if fits and not hierarchy.loses_steps(unit, replace(level.scheme, size=size), removed):
            ways.append(f"take size {size}")
            break
    return InputError(
        f"level {level.name}: expected a shuffle whose passes have as many steps when {units} removed, got {drawn} of "
        f"{counted}, whose passes lose a step, so that all later batches change; "
        f"{', '.join(ways[:-1])}{' or ' if ways[1:] else ''}{ways[-1]}"
    )


# Random allocation: in each pass every unit takes part in one step, chosen at random ("balls in bins")


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


# One pass over shuffled units in batches of a fixed size, whose order is secret (docs/theory.md, Theorem 7.10).
# Reveal all of a pass but where the unit x is and where one other unit of each other batch is, its mates: given that, x
# and the mates are in a uniform order. A pair (P, Q) that dominates one step of x is that of a label y ~ P or y ~ Q. If
# P + Q <= 2 q W for the output law W of every mate, each mate draws a label from U = (P + Q) / 2 with chance 1/q, and
# which labels belong to mates is not to be seen. With m labels in all, m - 1 ~ Binomial(M - 1, 1/q), D and D' give
# their vector the densities 1 + S/m and 1 - S/m against U^m, where S is the sum of C = (P - Q) / (P + Q) over the
# labels. Where P and Q exceed q W by a mass of d at most, d is added once, whoever the mates are.
# Everything is read from the law of C under U. One such law dominates another if it is larger in convex order, so that
# splitting a mass over two points around it, its mean kept, gives an upper bound; so does a smaller m.


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
