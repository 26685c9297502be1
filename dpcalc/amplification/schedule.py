"""From one-step bounds to the steps of a whole phase, in both directions: redraw periods, passes, chosen steps.

Source: docs/theory.md, Theorem 2.6, Theorem 4.3, Theorem 7.6 and Theorem 7.7.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

from dpcalc.amplification.bound import Average, Bound, CountPair, ExchangedPair, StepBound, unamplified
from dpcalc.amplification.groups import Group
from dpcalc.amplification.joint_distances import JointStepBound, joint_profile
from dpcalc.amplification.mates import MAX_CENTERS, MatesAverage, hidden_mates_profile, merge_close_parts
from dpcalc.amplification.shuffled import shuffled_pass
from dpcalc.errors import InputError, TooLargeError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.atoms import chain_of, composed
from dpcalc.losses.likelihood_ratio import Estimate, mean_pair
from dpcalc.losses.loss import Loss, LossCurve, of_falling_pair, of_two_halves, under_draw
from dpcalc.losses.moments import Steps, repeated, together, under_public_draw
from dpcalc.losses.pair import half_line_end
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.mechanisms.black_box import PateMechanism
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import AllocatedPass, Allocation, CheckIn, Shuffle
from dpcalc.work import TURN, cached_with_cost, spend

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
