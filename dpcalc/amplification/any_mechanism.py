"""Whole phases, groups and passes of any mechanism but the Gaussian one, from the one-step bound (K*).

Noise on a sum takes the bound of the phase in clip norms, in which draws made anew in every step are hidden. Any
other mechanism hides such draws for one unit, and for several reveals those above the protected level. Draws that are
held for several steps are revealed, the protected level's own included: where such a draw holds any protected unit,
it is taken to hold all that it can. A promise for batches of one size covers no batch that lacks a unit: there the
draws that make batches of several sizes are revealed, or the number that a Poisson draw takes.

In a pass over shuffled units its batch differs and, where a unit is removed, the last one. The pass of a group is the
chain of passes of one unit, in frames that have lost up to k - 1 units.

Source: docs/theory.md, Definition 8.0, Lemma 8.2, Theorem 8.7 and Theorem 8.8.
"""

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from itertools import takewhile

from dpcalc.amplification.allocation import allocated_releases, hidden_or_revealed, repeated_loss
from dpcalc.amplification.bound import StepBound, with_largest_lengths
from dpcalc.amplification.counts import (
    Average,
    Bound,
    Part,
    revealed_count_distributions,
    unamplified,
    unit_count_bound,
)
from dpcalc.amplification.divergences import chained_divergences, step_divergences, unamplified_divergences
from dpcalc.amplification.groups import Group
from dpcalc.amplification.mates import MatesAverage, merge_close_parts
from dpcalc.amplification.phase import bound_with_redraws, native_bound, removal_paths
from dpcalc.amplification.random_contents import hidden_unit_bound
from dpcalc.amplification.schedule import (
    Chain,
    PhaseBound,
    Release,
    Repeat,
    Single,
    is_shortened,
    is_shuffled,
    repeat_under_draws,
    shortened_pass_error,
    unamplified_phase,
)
from dpcalc.amplification.step_pair import step_pair
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.atoms import Atoms, chain_of, chained, composed
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.mechanisms.kinds import AdditiveNoise, BlackBox, Change, PairOnly, RdpOnly
from dpcalc.records import dataclass
from dpcalc.sampling.counts import binomial
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Fixed, FixedAtRate, Poisson, Shuffle, WithReplacement
from dpcalc.sampling.sums import coarsen_at_quantiles
from dpcalc.work import SECOND, cached_with_cost, own_allowance, spend

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
    """The steps of one phase whose mechanism `black_box_refusal` accepts, and what is protected.

    Attributes:
        mechanism: what each step applies to its batch.
        hierarchy: levels and schemes.
        path: the path to the protected units.
        clip: clipping level, 0 to depth.
        adjacency: relation between D and D'.
        group: the protected units and their placement; one unit where links lead from one to the next.
        removed: all protected units and their placement.
        noise: the bound of the phase in clip norms, which applies if the mechanism adds noise to a sum.
        number: number of steps, >= 0.
        max_mates: draws of the mates that may be told apart; 0 if many units share the work.
        change: what one change is to a mechanism that counts units.
    """

    mechanism: BlackBox
    hierarchy: Hierarchy
    path: Path
    clip: int
    adjacency: Adjacency
    group: Group
    removed: Group
    noise: PhaseBound
    number: int
    max_mates: int
    change: Change

    @property
    def phase_bound(self) -> PhaseBound:
        """The bound of the phase: for noise on a sum `noise`, in clip norms, else `_bound_in_changes`."""
        return self.noise if isinstance(self.mechanism, AdditiveNoise) else self._bound_in_changes()

    def _bound_in_changes(self) -> PhaseBound:
        """Return the phase bound in changes of the promise instead of clip norms."""
        if self.hierarchy.episodes is not None:
            return PhaseBound(bound=self._step_bound(self.path))
        first, *later = self._paths_of_links()
        drawn = bound_with_redraws(self.hierarchy, first, self.group, self._step_bound)
        return replace(
            self.noise,
            bound=drawn.bound,
            later=tuple(self._step_bound(each) for each in later),
            squared=1,
            hold=drawn.hold,
            revealed=drawn.revealed,
        )

    def _paths_of_links(self) -> tuple[Path, ...]:
        """Return the paths of the noise's links, one for all if they are alike or the chain knows only one curve."""
        if not self.noise.later:
            return (self.path,)
        group = Group(size=len(self.noise.links)) if isinstance(self.mechanism, RdpOnly) else self.removed
        paths = removal_paths(self.hierarchy, self.path, self.adjacency, group)
        return paths[-1:] if isinstance(self.mechanism, RdpOnly) else paths

    def _step_bound(self, drawn: Path) -> Bound:
        """Return a step's bound in changes; draws above the unit are hidden if `_may_hide_draws`, else public."""
        exchange = self.change.exchange
        if self._may_hide_draws(drawn):  # Renyi bounds at hundreds of orders are too slow for an average
            mates = 0 if isinstance(self.mechanism, RdpOnly) else self.max_mates
            return hidden_unit_bound(
                self.hierarchy, drawn, adjacency=self.adjacency, max_mates=mates, exchange=exchange
            )
        if not self.change.covers_missing and isinstance(drawn.schemes[-1], Poisson):
            return self._bound_at_public_numbers(drawn)
        return unit_count_bound(self.hierarchy, drawn, adjacency=self.adjacency, group=self.group, exchange=exchange)

    def _bound_at_public_numbers(self, drawn: Path) -> Average:
        """Return the bound of replaced units whose Poisson draw tells the number drawn, or that of the protected ones.

        Source: docs/theory.md, Theorem 8.8.
        """
        unit, scheme = len(drawn.counts), self.path.schemes[-1]
        level, above = self.hierarchy.level(unit), self.hierarchy.levels[: unit - 1]
        is_single = self.group.size == 1 and not any(isinstance(each, WithReplacement) for each in drawn.schemes)
        if not is_single or not isinstance(scheme, Poisson) or level.redraw_every > 1:
            laws = revealed_count_distributions(self.hierarchy, drawn, clip=self.hierarchy.depth, group=self.group)
            return Average(
                parts=tuple((chance * p, _certain_changes(h)) for chance, law in laws for h, p in law.items() if h)
            )
        # The draw is over the units of one parent, or of all parents that are surely drawn with it; of fewer units the
        # share that is drawn varies more, which costs more.
        count = level.min_count
        if self.noise.allocation is None:
            for each in takewhile(lambda each: isinstance(each.scheme, All), reversed(above)):
                count *= each.min_count
        deviations = _FEW_NUMBERS if isinstance(self.mechanism, RdpOnly) else _NUMBERS
        law = coarsen_at_quantiles(binomial(count, scheme.probability), deviations)
        reached = drawn.inclusion(unit - 1)
        return Average(
            parts=tuple(
                (
                    reached * chance,
                    StepBound(
                        inclusion=Fraction(number, count),
                        shift=1,
                        missed=(1 - Fraction(number, count),),
                        distances=(1,),
                        distances_swapped=(1,),
                    ),
                )
                for number, chance in law.items()
                if number
            )
        )

    def _may_hide_draws(self, drawn: Path) -> bool:
        """Return True if draws of a unit drawn anew can miss an ancestor, and the mechanism may hide their schemes."""
        may_hide = self._is_unit_drawn_anew() and self._may_hide_schemes(drawn)
        return may_hide and any(drawn.missed(number) for number in range(1, len(drawn.counts)))

    def _is_unit_drawn_anew(self) -> bool:
        """Return True if each step draws a single unit anew: no group, episodes, allocation, shuffle or held draw."""
        is_nested = self.hierarchy.episodes is None and self.noise.allocation is None and not is_shuffled(self.path)
        return is_nested and self.group.size == 1 and self.hierarchy.level(len(self.path.counts)).redraw_every == 1

    def _may_hide_schemes(self, drawn: Path) -> bool:
        """Return True if this mechanism may hide the draws of the path's schemes.

        Fixed, Poisson and `all` draws may be hidden, for RdpOnly if mates may be told apart. A promise for batches of
        one size hides them if all batches have it: all frames of a level are equal, drawn by `fixed` or `all`.
        """
        schemes = {*map(type, drawn.schemes)}
        if not self.change.covers_missing:
            sizes_are_equal = all(level.is_equal for level in self.hierarchy.levels[: len(drawn.counts)])
            if not sizes_are_equal or not schemes <= {Fixed, All}:
                return False
        is_affordable = self.max_mates > 0 or not isinstance(self.mechanism, RdpOnly)
        return is_affordable and schemes <= {Fixed, FixedAtRate, Poisson, All}


def black_box_releases(steps: BlackBoxSteps) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of a phase; InputError if removal takes a step from a shuffle's passes."""
    unit, group = len(steps.path.counts), steps.group
    if is_shortened(steps.hierarchy, unit=unit, adjacency=steps.adjacency, group=group):
        raise shortened_pass_error(steps.hierarchy, unit=unit, group=group)
    is_group_in_passes = group.size > 1 and steps.noise.steps_of_a_pass > 1
    if is_group_in_passes or _sums_squares(steps):
        return _pass_releases(steps)
    return repeated_releases(steps.mechanism, steps.phase_bound, steps.number)


def unamplified_releases(steps: BlackBoxSteps) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) if steps surely draw all protected units; of whole passes, the usual ones."""
    if _sums_squares(steps):
        return _pass_releases(steps)
    return repeated_releases(steps.mechanism, unamplified_phase(steps.phase_bound), steps.number)


def repeated_releases(mechanism: BlackBox, phase_bound: PhaseBound, number: int) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of `number` steps under one bound; AssertionError if its `squared` is
    not 1."""
    if phase_bound.squared != 1:
        raise AssertionError("only Gaussian noise sums up squared distances")
    if phase_bound.allocation is not None:
        return _allocated_releases(mechanism, phase_bound, number)
    return _releases_under_public_draws(mechanism, phase_bound, number)


def _releases_under_public_draws(mechanism: BlackBox, phase_bound: PhaseBound, number: int) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of all passes begun, under all public draws and a held one of the unit."""
    # A held draw of the protected level is one more public draw, above steps that surely hold the unit.
    bound, revealed = phase_bound.bound, phase_bound.revealed
    if phase_bound.hold > 1:
        bound, revealed = unamplified(bound), (*revealed, (bound.inclusion, phase_bound.hold))
    random_draws = tuple((rate, period) for rate, period in revealed if rate < 1)
    passes, ahead = -(-number // phase_bound.steps_of_a_pass), _step_loss(mechanism, bound)
    back = ahead.swapped
    return repeat_under_draws(passes, random_draws, 1, lambda _: ahead), repeat_under_draws(
        passes, random_draws, 1, lambda _: back
    )


def _allocated_releases(mechanism: BlackBox, phase_bound: PhaseBound, steps: int) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of an allocated phase; UnsupportedError for an RdpCurve with hidden steps."""
    step_loss = _step_loss(mechanism, phase_bound.bound)
    if isinstance(step_loss, Atoms):
        loss = partial(repeated_loss, step_loss)
        return hidden_or_revealed(
            phase_bound, lambda bound: allocated_releases(bound, steps, loss, partial(_pair_of_step, mechanism))
        )
    return _revealed_visits(step_loss, phase_bound, steps)


def _revealed_visits(step_loss: RdpCurve, phase_bound: PhaseBound, steps: int) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of all visits of a unit; UnsupportedError unless its steps are revealed."""
    if not phase_bound.is_revealed or phase_bound.allocation is None:
        raise UnsupportedError("allocation: expected a mechanism whose losses are known, got Renyi divergences")
    linked = chained_divergences([step_loss], len(phase_bound.links)) if phase_bound.links[1:] else step_loss
    visits = phase_bound.allocation.visits(steps) * max(1, phase_bound.units_together)
    return Repeat(node=Single(curve=linked), count=visits), Repeat(node=Single(curve=linked.swapped), count=visits)


def _pair_of_step(mechanism: BlackBox, bound: Bound) -> Atoms:
    """Return `_step_loss` of a mechanism whose losses are known; TypeError for others."""
    loss = _step_loss(mechanism, bound)
    if not isinstance(loss, Atoms):
        raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")
    return loss


def _step_loss(mechanism: BlackBox, bound: Bound) -> Atoms | RdpCurve:
    """Return an upper bound on a step's loss: amplified or, as work runs out, with fewer parts or not amplified."""
    try:
        return _amplified_step_loss(mechanism, bound)
    except WorkExceededError:
        few = _with_few_parts(bound)
    if few != bound or isinstance(mechanism, PairOnly):  # whose atoms are few: only other units used the work up
        with own_allowance(_WORK_OF_FEW_PARTS), suppress(WorkExceededError):
            return _amplified_step_loss(mechanism, few)
    return _loss_of_changes(mechanism, unamplified(bound).max_shift)


def _loss_of_changes(mechanism: BlackBox, changes: int) -> Atoms | RdpCurve:
    """Return an upper bound on the loss of `changes` changes that takes little work; TypeError if none is known."""
    if isinstance(mechanism, RdpOnly):
        return unamplified_divergences(mechanism, changes)
    if isinstance(mechanism, AdditiveNoise):
        return mechanism.pair(changes)
    if isinstance(mechanism, PairOnly):
        return _unamplified_atoms(mechanism, changes)
    raise TypeError(f"{mechanism.name}: expected a mechanism whose losses or divergences are known")


def _with_few_parts(bound: Bound) -> Bound:
    """Return an upper bound with fewer parts: the largest over the mates, with parts of equal probabilities merged."""
    largest = bound.largest if isinstance(bound, MatesAverage) else bound
    return _merge_equal_probabilities(largest) if isinstance(largest, Average) else largest


def _merge_equal_probabilities(average: Average) -> Average:
    """Return an upper bound in which all StepBounds of equal inclusion and missed probabilities are one part."""
    kinds: dict[object, list[tuple[Fraction, StepBound]]] = {}
    counted: list[tuple[Fraction, Part]] = []
    for chance, part in average.parts:
        if isinstance(part, StepBound):
            kinds.setdefault((part.inclusion, part.missed), []).append((chance, part))
        else:
            counted.append((chance, part))
    for members in kinds.values():
        chance = sum((share for share, _ in members), start=Fraction(0))
        counted.append((chance, with_largest_lengths([part for _, part in members])))
    return Average(parts=tuple(counted))


def _unamplified_atoms(mechanism: PairOnly, changes: int) -> Atoms:
    """Return the loss of `changes` changes by group privacy of (epsilon, delta); all is infinite if delta reaches 1."""
    pair = mechanism.pair()
    epsilon, delta = max(pair.losses, default=0.0), max(pair.infinity_mass, pair.only_other)
    total = delta * changes * math.exp(min((changes - 1) * epsilon, _LARGEST)) * (1 + _ROUNDED) if delta else 0.0
    if total >= 1:
        return Atoms(losses=(), log_masses=(), infinity_mass=1.0, other_infinite=1.0)
    return ApproximateDp(epsilon=changes * epsilon * (1 + _ROUNDED), delta=total).pair()


@cached_with_cost(128)
def _amplified_step_loss(mechanism: BlackBox, bound: Bound) -> Atoms | RdpCurve:
    """Return an upper bound on a step's loss with amplification, an RdpCurve for RdpOnly and Atoms otherwise."""
    if isinstance(mechanism, RdpOnly):
        return step_divergences(mechanism, bound)
    if isinstance(bound, MatesAverage):
        bound = merge_close_parts(bound, noise_multiplier=_similar_noise(mechanism), max_centers=_MAX_CENTERS)
    return step_pair(bound, partial(_pair_after_changes, mechanism))


def _similar_noise(mechanism: BlackBox) -> float:
    """Return the noise multiplier, or that of Gaussian noise with about the mechanism's delta at epsilon 0."""
    # Which parts are merged decides how tight the bound is, not that it holds: Phi(x) - 1/2 is about 0.4 x.
    if isinstance(mechanism, AdditiveNoise):
        return mechanism.noise_multiplier
    return 0.4 / max(_pair_after_changes(mechanism, 1).delta(0.0), 1e-9)


@cached_with_cost(512)
def _pair_after_changes(mechanism: BlackBox, changes: int) -> Atoms:
    """Return the dominating pair of `changes` >= 0 sure changes; TypeError for RdpOnly."""
    match mechanism:
        case _ if not changes:
            return Atoms(losses=(), log_masses=())
        case AdditiveNoise():
            spend(_UNITS_OF_A_PAIR)
            return mechanism.pair(changes)
        case RandomizedResponse():
            return _pair_of_responses(mechanism, changes)
        case PairOnly() if changes > 1:  # from two halves, each remembered: that takes turns in log(changes)
            return chain_of([_pair_after_changes(mechanism, half) for half in (changes // 2, changes - changes // 2)])
        case PairOnly():
            return mechanism.pair()
        case _:
            raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")


def _pair_of_responses(mechanism: RandomizedResponse, changes: int) -> Atoms:
    """Return the dominating pair of `changes` responses, exact up to 2048 of them and composed of halves above."""
    if changes <= _MAX_JOINT_RESPONSES:
        return mechanism.pair(changes)
    half = changes // 2
    return composed(_pair_after_changes(mechanism, half), _pair_after_changes(mechanism, changes - half))


def _certain_changes(changes: int) -> StepBound:
    """Return the bound of a step that makes exactly this number of changes: inclusion 1, nothing missed."""
    return StepBound(inclusion=Fraction(1), shift=changes, missed=(), distances=(), distances_swapped=())


def _sums_squares(steps: BlackBoxSteps) -> bool:
    """Return True if a pass holds all, or its bound sums squared distances, which bounds Gaussian noise alone."""
    return _passes_hold_all(steps.path) or steps.phase_bound.squared != 1


def _passes_hold_all(path: Path) -> bool:
    """Return True if the protected level is shuffled and each pass holds all of its units."""
    return isinstance(path.schemes[-1], Shuffle) and path.rate(len(path.counts)) == 1


def _pass_releases(steps: BlackBoxSteps) -> tuple[Release, Release]:
    """Return the releases (D||D', D'||D) of all passes begun: in each, its changed batches or a group's chain."""
    number = -(-steps.number // steps.noise.steps_of_a_pass)
    bounds, size = _single_unit_pass_bounds(steps), steps.group.size
    curves = [_step_loss(steps.mechanism, bound) for bound in bounds]
    if size > 1:
        curves = [_pass_loss_of_group(curves, size)]
    ahead = tuple(Repeat(node=Single(curve=curve), count=number) for curve in curves)
    back = tuple(Repeat(node=Single(curve=curve.swapped), count=number) for curve in curves)
    return Chain(nodes=ahead), Chain(nodes=back)


def _pass_loss_of_group(batch_losses: list[Atoms | RdpCurve], size: int) -> Atoms | RdpCurve:
    """Return an upper bound on a group's loss in one pass: the loss of one unit, chained once for each member."""
    pairs = [curve for curve in batch_losses if isinstance(curve, Atoms)]
    divergences = [curve for curve in batch_losses if isinstance(curve, RdpCurve)]
    if pairs and divergences:
        raise AssertionError("a pass of one mechanism has losses of one kind")
    return chained(reduce(composed, pairs), size) if pairs else chained_divergences(divergences, size)


def _single_unit_pass_bounds(steps: BlackBoxSteps) -> list[Bound]:
    """Return one unit's bounds in a pass: one for each batch that changes, or one of a draw if it leaves units out."""
    if not _passes_hold_all(steps.path):
        return [_smallest_frame_bound(steps)]
    return [_certain_changes(changes) for changes in _changes_by_batch(steps)]


def _smallest_frame_bound(steps: BlackBoxSteps) -> Bound:
    """Return the bound of a single unit at `_path_in_smallest_frame`, where draws have their largest rates."""
    # Units of a group are removed one after the other. The cost of a draw grows with its rate, so that the smallest
    # frame that can occur stands for all of them.
    path = _path_in_smallest_frame(steps)
    noise = native_bound(steps.hierarchy, path, clip=steps.clip, adjacency=steps.adjacency, group=Group())
    return replace(steps, path=path, group=Group(), noise=noise).phase_bound.bound


def _path_in_smallest_frame(steps: BlackBoxSteps) -> Path:
    """Return the path in the smallest frame that the removal of the other members can leave."""
    path, scheme = steps.path, steps.path.schemes[-1]
    # A draw from a frame with fewer units than it takes is that of a frame with just as many.
    fewest = scheme.size + isinstance(scheme, Shuffle) if isinstance(scheme, Fixed | Shuffle) else 1
    removed = steps.adjacency is Adjacency.ADD_REMOVE
    fewer = min(steps.group.size - 1, max(0, path.counts[-1] - fewest)) if removed else 0
    return replace(path, counts=(*path.counts[:-1], path.counts[-1] - fewer))


def _changes_by_batch(steps: BlackBoxSteps) -> list[int]:
    """Return the change in each batch of a pass that changes, in changes or, for noise on a sum, clip norms."""
    is_removed, is_clipped_above = steps.adjacency is Adjacency.ADD_REMOVE, steps.clip < len(steps.path.counts)
    if not isinstance(steps.mechanism, AdditiveNoise) or is_clipped_above:
        if isinstance(steps.mechanism, AdditiveNoise):
            return [2, 2] if is_removed else [2]
        # The last unit of the pass moves up into the place of a removed one, and is missing in the last batch.
        exchange = 1 if steps.adjacency is Adjacency.ZERO_OUT else steps.change.exchange
        return [exchange, 1] if is_removed else [exchange]
    return _contributions_moved_by_batch(steps.path, steps.adjacency)


def _contributions_moved_by_batch(path: Path, adjacency: Adjacency) -> list[int]:
    """Return how many clip norms a pass's changed batches move: the unit's and, if a sibling moves up, the last."""
    # The unit that moves up into the removed one's place is missing in the last batch.
    own, sibling = path.contributions[-1], path.siblings[-1]
    match adjacency:
        case Adjacency.ZERO_OUT:
            return [own]
        case Adjacency.REPLACE_ONE:
            return [2 * own]
        case Adjacency.ADD_REMOVE:
            return [own + sibling, sibling] if sibling else [own]
