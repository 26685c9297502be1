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
from math import prod

from dpcalc.amplification.allocation import allocated_steps, hidden_or_revealed, repeated_loss
from dpcalc.amplification.bound import StepBound
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
from dpcalc.amplification.mates import MatesAverage, merge_close_parts, with_few_parts
from dpcalc.amplification.phase import bound_with_redraws, native_bound, removal_paths
from dpcalc.amplification.random_contents import hidden_unit_bound
from dpcalc.amplification.schedule import (
    PhaseBound,
    is_shortened,
    is_shuffled,
    secret_pass_steps,
    shortened_pass_error,
    steps_under_draws,
    unamplified_phase,
)
from dpcalc.amplification.step_pair import step_pair
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.atoms import ALL_INFINITE, chain_of, composed
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Steps, repeated, together
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.mechanisms.additive import AdditiveNoise
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.mechanisms.kinds import BlackBox, Change, PairOnly, RdpOnly
from dpcalc.records import dataclass
from dpcalc.sampling.counts import binomial
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Poisson
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
                bound = StepBound(inclusion=share, shift=1, missed=(1 - share,), distances=(1,), distances_swapped=(1,))
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

    def loss(bound: Bound) -> Loss:
        found = _step_loss(steps.mechanism, bound)
        if not isinstance(found, Loss):
            raise TypeError(f"{steps.mechanism.name}: expected a mechanism whose losses are known")
        return found

    return secret_pass_steps(steps.phase_bound, loss, steps=steps.number, delta=delta)


def black_box_releases(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) of a phase; InputError if removal takes a step from a shuffle's passes."""
    unit, group = len(steps.path.counts), steps.group
    if is_shortened(steps.hierarchy, unit=unit, adjacency=steps.adjacency, group=group):
        raise shortened_pass_error(steps.hierarchy, unit=unit, group=group)
    is_group_in_passes = group.size > 1 and steps.noise.steps_of_a_pass > 1
    if is_group_in_passes or _sums_squares(steps):
        return _pass_releases(steps)
    return repeated_releases(steps.mechanism, steps.phase_bound, steps.number)


def unamplified_releases(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the steps (D||D', D'||D) if they surely draw all protected units; of whole passes, the usual ones."""
    if _sums_squares(steps):
        return _pass_releases(steps)
    return repeated_releases(steps.mechanism, unamplified_phase(steps.phase_bound), steps.number)


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
        passes, ahead = -(-number // phase_bound.steps_of_a_pass), _step_loss(mechanism, bound)
        back = ahead.swapped
        return steps_under_draws(passes, random_draws, 1, lambda _: ahead), steps_under_draws(
            passes, random_draws, 1, lambda _: back
        )

    step_loss = _step_loss(mechanism, phase_bound.bound)
    if isinstance(step_loss, Loss):
        loss = partial(repeated_loss, step_loss)

        def later_loss(bound: Bound) -> Loss:
            found = _step_loss(mechanism, bound)
            if not isinstance(found, Loss):
                raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")
            return found

        return hidden_or_revealed(phase_bound, lambda bound: allocated_steps(bound, number, loss, later_loss))
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
    changes = unamplified(bound).max_shift
    match mechanism:
        case RdpOnly():
            return unamplified_divergences(mechanism, changes)
        case AdditiveNoise():
            return mechanism.pair(changes)
        case PairOnly():
            return _unamplified_atoms(mechanism, changes)
        case _:
            raise TypeError(f"{mechanism.name}: expected a mechanism whose losses or divergences are known")


def _unamplified_atoms(mechanism: PairOnly, changes: int) -> Loss:
    """Return the loss of `changes` changes by group privacy of (epsilon, delta); all is infinite if delta reaches 1."""
    pair = mechanism.pair()
    epsilon, delta = max(pair.losses, default=0.0), max(pair.infinity_mass, pair.only_other)
    total = delta * changes * math.exp(min((changes - 1) * epsilon, _LARGEST)) * (1 + _ROUNDED) if delta else 0.0
    if total >= 1:
        return ALL_INFINITE
    return ApproximateDp(epsilon=changes * epsilon * (1 + _ROUNDED), delta=total).pair()


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


def _sums_squares(steps: BlackBoxSteps) -> bool:
    """Return True if a pass holds all, or its bound sums squared distances, which bounds Gaussian noise alone."""
    return _passes_hold_all(steps.path) or steps.phase_bound.squared != 1


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
