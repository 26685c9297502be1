"""Phases of any mechanism but the Gaussian one, from what changes of a batch cost.

Noise on a sum takes the bound of the phase as it is (`black_box` says why): draws made afresh in every step are hidden,
as under Gaussian noise. Any other mechanism knows no distances between batches, so that draws above the protected level
are revealed; they are the same in D and D'. So are draws that are held for several steps, the protected level's own
too: where they hold anything of what is protected, all that they can hold is taken to be there.

Shuffles. As in `passes`, with the order of a pass revealed only the batch of the unit differs and, where a unit is
removed, the last one: another unit takes its place, and there one is missing. A pass that drops what fills no batch is
a step with a fixed draw. For groups the pass of one unit is chained, unit after unit: every link is a pair of
neighbours, in frames that have lost up to k - 1 units.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial, reduce

from dpcalc.adjacency import Adjacency
from dpcalc.curves.atoms import Atoms
from dpcalc.curves.coupled import both, chained
from dpcalc.curves.rdp_curve import RdpCurve
from dpcalc.mechanisms.approximate_dp import ApproximateDp
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.kinds import BlackBox, Diverging, Shifted
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.release.black_box import step_pair
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import Average, Bound, always
from dpcalc.release.divergences import chained_step, diverging_step
from dpcalc.release.drawn_laws import drawn_laws, unit_bound
from dpcalc.release.group import Group
from dpcalc.release.passes import is_shortened, refusal_of_passes
from dpcalc.release.phase_bounds import drawn_in_time, native_bound
from dpcalc.release.timed import Timed, stretch
from dpcalc.release.tree import Release, Repeat, Sequence, Single
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed, Poisson, Shuffle

_MOST_ANSWERS = 2048  # randomized responses whose joint law is exact; more are composed of halves, on fewer losses


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is protected.

    Attributes:
        unit: protected level.
        adjacency: relation between D and D'.
        group_size: units protected together.
    """

    unit: int
    adjacency: Adjacency
    group_size: int = 1


def refusal(mechanism: BlackBox, hierarchy: Hierarchy, asked: Asked) -> str:
    """Why nothing is claimed for a phase, as "expected X, got Y"; "" where something is."""
    if not isinstance(mechanism, RandomizedResponse):
        return ""
    if asked.adjacency is not Adjacency.REPLACE_ONE:
        return (
            "expected adjacency replace-one with randomized-response, which has no answer of a unit that is not there, "
            f"got {asked.adjacency}"
        )
    if asked.unit < hierarchy.depth:
        last, unit = hierarchy.level(hierarchy.depth).name, hierarchy.level(asked.unit).name
        return f"expected the unit that answers by randomized-response, {last}, to be protected, got {unit}"
    return ""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of a phase that `refusal` does not refuse, and what is protected.

    Attributes:
        mechanism: on the batch.
        hierarchy: levels and schemes.
        path: the way to the protected units.
        clip: clipping level.
        adjacency: relation between D and D'.
        group: how many units, and where they are.
        noise: the bound if the mechanism adds noise to a sum.
        number: >= 0.
    """

    mechanism: BlackBox
    hierarchy: Hierarchy
    path: Path
    clip: int
    adjacency: Adjacency
    group: Group
    noise: Timed
    number: int

    @property
    def timed(self) -> Timed:
        """The bound, and when it applies."""
        if isinstance(self.mechanism, Shifted):
            return self.noise
        if self.hierarchy.episodes is not None:
            return Timed(bound=self._bound(self.path))
        return replace(
            drawn_in_time(self.hierarchy, self.path, self.group, self._bound),
            steps_of_a_pass=self.noise.steps_of_a_pass,
        )

    def _bound(self, drawn: Path) -> Bound:
        """Of one draw, counting units."""
        if not isinstance(self.mechanism, RandomizedResponse) or not isinstance(drawn.schemes[-1], Poisson):
            return unit_bound(self.hierarchy, drawn, adjacency=self.adjacency, group=self.group)
        laws = drawn_laws(self.hierarchy, drawn, clip=self.hierarchy.depth, group=self.group)
        return Average(parts=tuple((chance * p, _known(h)) for chance, law in laws for h, p in law.items() if h))


def black_box_release(steps: Steps) -> tuple[Release, Release]:
    """The steps in the directions D||D' and D'||D, drawn as the levels say.

    Raises:
        InputError: removing what is protected takes a step from the passes.
    """
    unit, group = len(steps.path.counts), steps.group
    if is_shortened(steps.hierarchy, unit=unit, adjacency=steps.adjacency, group=group):
        raise refusal_of_passes(steps.hierarchy, unit=unit, group=group)
    if _holds_all(steps.path) or (steps.group.size > 1 and steps.noise.steps_of_a_pass > 1):
        return _passes(steps)
    return timed_release(steps.mechanism, steps.timed, steps.number)


def known_release(steps: Steps) -> tuple[Release, Release]:
    """The same if every step were known to hold the unit: no amplification."""
    if _holds_all(steps.path):
        return _passes(steps)
    timed = steps.timed
    return timed_release(steps.mechanism, replace(timed, bound=always(timed.bound), revealed=()), steps.number)


def timed_release(mechanism: BlackBox, timed: Timed, number: int) -> tuple[Release, Release]:
    """Steps that are all alike, in the directions D||D' and D'||D.

    Args:
        mechanism: on the batch.
        timed: the bound in its changes, and when it applies.
        number: of steps, >= 0.
    """
    bound, revealed = timed.bound, timed.revealed
    if timed.hold > 1:
        bound, revealed = always(bound), (*revealed, (bound.inclusion, timed.hold))
    told = tuple((rate, period) for rate, period in revealed if rate < 1)
    passes, ahead = -(-number // timed.steps_of_a_pass), _curve(mechanism, bound)
    back = ahead.swapped
    return stretch(passes, told, 1, lambda _: ahead), stretch(passes, told, 1, lambda _: back)


@lru_cache(maxsize=128)
def _curve(mechanism: BlackBox, bound: Bound) -> Atoms | RdpCurve:
    """One step in the direction D||D'."""
    if isinstance(mechanism, Diverging):
        return diverging_step(mechanism, bound)
    return step_pair(bound, partial(_changed, mechanism))


@lru_cache(maxsize=512)
def _changed(mechanism: BlackBox, changes: int) -> Atoms:
    """What a number of changes costs."""
    match mechanism:
        case _ if not changes:
            return Atoms(losses=(), log_masses=())
        case Laplace() | DiscreteGaussian() | DiscreteLaplace():
            return mechanism.pair(changes)
        case RandomizedResponse() if changes > _MOST_ANSWERS:
            return both(_changed(mechanism, changes // 2), _changed(mechanism, changes - changes // 2))
        case RandomizedResponse():
            return mechanism.pair(changes)
        case ApproximateDp():
            return chained(mechanism.pair(), changes)
        case _:
            raise TypeError(f"{mechanism.name}: expected a mechanism whose losses are known")


def _known(changes: int) -> StepBound:
    """A step that is known to hold so much of what is protected."""
    return StepBound(inclusion=Fraction(1), shift=changes, missed=(), distances=(), distances_swapped=())


def _holds_all(path: Path) -> bool:
    """Whether the protected level is shuffled, and every pass holds each of its units."""
    return isinstance(path.schemes[-1], Shuffle) and path.rate(len(path.counts)) == 1


def _smallest_frame(path: Path) -> int:
    """Units that the frames of a chain hold at least; of fewer than it takes, a draw takes all, as of just as many."""
    match path.schemes[-1]:
        case Fixed(size=size):
            return size
        case Shuffle(size=size):
            return size + 1
        case _:
            return 1


def _passes(steps: Steps) -> tuple[Release, Release]:
    """Passes over a shuffled level: the batches of one that differ, or what they make of a group."""
    number = -(-steps.number // steps.noise.steps_of_a_pass)
    bounds, size = _pass_of_one(steps), steps.group.size
    curves = [_curve(steps.mechanism, bound) for bound in bounds]
    if size > 1:
        curves = [_of_group(curves, size)]
    ahead = tuple(Repeat(node=Single(curve=one), count=number) for one in curves)
    back = tuple(Repeat(node=Single(curve=one.swapped), count=number) for one in curves)
    return Sequence(nodes=ahead), Sequence(nodes=back)


def _of_group(curves: list[Atoms | RdpCurve], size: int) -> Atoms | RdpCurve:
    """The pass of a group, from the batches that differ for one of its units."""
    pairs = [one for one in curves if isinstance(one, Atoms)]
    if pairs:
        return chained(reduce(both, pairs), size)
    return chained_step([one for one in curves if isinstance(one, RdpCurve)], size)


def _pass_of_one(steps: Steps) -> list[Bound]:
    """The batches of a pass that differ for one unit, in frames that have lost all others of its group."""
    path, removed = steps.path, steps.adjacency is Adjacency.ADD_REMOVE
    if not _holds_all(path):
        fewer = min(steps.group.size - 1, max(0, path.counts[-1] - _smallest_frame(path))) if removed else 0
        path = replace(path, counts=(*path.counts[:-1], path.counts[-1] - fewer))
        noise = native_bound(steps.hierarchy, path, clip=steps.clip, adjacency=steps.adjacency, group=Group())
        return [replace(steps, path=path, group=Group(), noise=noise).timed.bound]
    if not isinstance(steps.mechanism, Shifted):
        return [_known(1)] * (2 if removed else 1)
    own, sibling = path.contributions[-1], path.siblings[-1]
    if steps.clip < len(path.counts):
        return [_known(2)] * (2 if removed else 1)
    if removed:
        return [_known(own + sibling), *([_known(sibling)] if sibling else [])]
    return [_known(own if steps.adjacency is Adjacency.ZERO_OUT else 2 * own)]
