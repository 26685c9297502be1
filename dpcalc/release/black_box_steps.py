"""Phases of any mechanism but the Gaussian one, from its pair or its Renyi divergences on a batch.

All draws above the protected level are revealed: they are the same in D and D'. So is the protected level's own draw
where it is held for several steps. A draw made afresh in every step hides whether the unit is in the batch.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby

from dpcalc.adjacency import Adjacency
from dpcalc.curves.atoms import Atoms
from dpcalc.curves.loss_moments import Curve
from dpcalc.curves.rdp_curve import LARGEST_ORDER, RdpCurve, fixed_size_upper, known, poisson_upper
from dpcalc.mechanisms.discrete import DiscreteLaplace
from dpcalc.mechanisms.kinds import BlackBox, Diverging, Shifted
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.rdp_table import RdpTable
from dpcalc.release.black_box import BatchPairs, drawn
from dpcalc.release.timed import stretch
from dpcalc.release.tree import Release
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement

_MOST_PURE = 100.0  # epsilon of a step beyond which it counts as one that tells all
_LARGEST = 300.0  # of the losses that are told apart
_NOTHING_HIDDEN = Atoms(losses=(), masses=(), infinite=1.0)


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
    if asked.group_size > 1:
        return f"expected single units with {mechanism.name}, got groups of {asked.group_size}"
    if hierarchy.episodes is not None:
        return f"expected draws of levels with {mechanism.name}, got constructed tasks"
    for level in hierarchy.levels[: asked.unit]:
        if isinstance(level.scheme, Shuffle | WithReplacement):
            return (
                f"expected draws poisson, fixed or all down to the protected level with {mechanism.name}, "
                f"got {level.scheme.name} ({level.name})"
            )
    if isinstance(mechanism, RandomizedResponse):
        return _unanswered(hierarchy, asked)
    if isinstance(mechanism, Diverging):
        return _undrawn(mechanism, hierarchy, asked)
    return ""


def _unanswered(hierarchy: Hierarchy, asked: Asked) -> str:
    """Why a relation has no randomized response."""
    if asked.adjacency is not Adjacency.REPLACE_ONE:
        return (
            "expected adjacency replace-one with randomized-response, which has no answer of a unit that is not there, "
            f"got {asked.adjacency}"
        )
    if asked.unit < hierarchy.depth:
        last, unit = hierarchy.level(hierarchy.depth).name, hierarchy.level(asked.unit).name
        return f"expected the unit that answers by randomized-response, {last}, to be protected, got {unit}"
    return ""


def _undrawn(mechanism: Diverging, hierarchy: Hierarchy, asked: Asked) -> str:
    """Why divergences alone say nothing of a draw."""
    level = hierarchy.level(asked.unit)
    if math.isinf(mechanism.rdp(2.0)) and level.redraw_every == 1 and not isinstance(level.scheme, All):
        return f"expected orders of 2 and more with {level.scheme.name} draws, got a curve that ends below"
    match level.scheme, asked.adjacency:
        case _ if level.redraw_every > 1:
            return ""
        case (
            (All(), _) | (_, Adjacency.ADD_REMOVE) | (Poisson(), Adjacency.ZERO_OUT) | (Fixed(), Adjacency.REPLACE_ONE)
        ):
            return ""
        case _:
            known = "add-remove, zero-out with poisson draws, or replace-one with fixed draws"
            return (
                f"expected {known} with {mechanism.name}, of which Renyi divergences alone are known, "
                f"got {asked.adjacency} with {level.scheme.name} draws"
            )


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of a phase that `refusal` does not refuse, and one protected unit.

    Attributes:
        mechanism: on the batch.
        path: the way to the protected unit.
        clip: clipping level.
        adjacency: relation between D and D'.
        number: >= 0.
    """

    mechanism: BlackBox
    path: Path
    clip: int
    adjacency: Adjacency
    number: int


def black_box_release(steps: Steps, hierarchy: Hierarchy) -> tuple[Release, Release]:
    """The steps in the directions D||D' and D'||D, drawn as the levels say."""
    mechanism, path = steps.mechanism, steps.path
    unit = len(path.counts)
    answers = isinstance(mechanism, RandomizedResponse) and not isinstance(path.schemes[-1], Fixed)
    hides = hierarchy.level(unit).redraw_every == 1 and not answers
    told = range(1, unit if hides else unit + 1)
    rhythms = groupby(told, key=lambda number: hierarchy.level(number).redraw_every)
    rates = [(math.prod(map(path.rate, levels), start=Fraction(1)), period) for period, levels in rhythms]
    revealed = tuple((rate, period) for rate, period in rates if rate < 1)
    ahead, back = _step(replace(steps, number=1), float(path.rate(unit)) if hides else 1.0)
    return stretch(steps.number, revealed, 1, lambda _: ahead), stretch(steps.number, revealed, 1, lambda _: back)


def known_release(steps: Steps) -> tuple[Release, Release]:
    """The same if every step were known to hold the unit: no amplification."""
    ahead, back = _step(replace(steps, number=1), 1.0)
    return stretch(steps.number, (), 1, lambda _: ahead), stretch(steps.number, (), 1, lambda _: back)


@lru_cache(maxsize=128)
def _step(steps: Steps, rate: float) -> tuple[Curve, Curve]:
    """One step of which everything above the protected level's hidden draw is known."""
    mechanism, path = steps.mechanism, steps.path
    stand_in = isinstance(path.schemes[-1], Fixed)
    if isinstance(mechanism, Diverging):
        curve = _divergences(mechanism, rate, steps.adjacency)
        return curve, curve.swapped
    if isinstance(mechanism, Shifted):
        own = path.contributions[-1]
        other = max(own, path.siblings[-1]) if stand_in else own
        above = steps.clip < len(path.counts)  # a clipped vector above the unit, which can turn around
        alone, both = (2, 2) if above else (own, own + other)
        pairs = BatchPairs(
            removed=_shifted(mechanism, alone), replaced=_shifted(mechanism, both), zeroed=_shifted(mechanism, alone)
        )
    else:
        pair = mechanism.pair()
        pairs = BatchPairs(removed=pair, replaced=pair, zeroed=pair)
    return drawn(pairs, rate, stand_in=stand_in, adjacency=steps.adjacency)


def _shifted(mechanism: Shifted, shift: int) -> Atoms:
    """The mechanism where sums differ by a shift; where noise is next to nothing, as one without any."""
    if isinstance(mechanism, Laplace | DiscreteLaplace) and shift > _MOST_PURE * mechanism.noise_multiplier:
        return _NOTHING_HIDDEN
    return _cut(mechanism.pair(shift))


def _cut(pair: Atoms) -> Atoms:
    """The pair with losses beyond what floats hold called infinite, or 0 where they are negative: an upper bound."""
    kept = [(loss, mass) for loss, mass in zip(pair.losses, pair.masses, strict=True) if abs(loss) <= _LARGEST]
    if len(kept) == len(pair.losses):
        return pair
    beyond = math.fsum(mass for loss, mass in zip(pair.losses, pair.masses, strict=True) if loss > _LARGEST)
    losses, masses = tuple(loss for loss, _ in kept), tuple(mass for _, mass in kept)
    return Atoms(losses=losses, masses=masses, infinite=min(1.0, pair.infinite + beyond))


def _divergences(mechanism: Diverging, rate: float, adjacency: Adjacency) -> RdpCurve:
    """A step by its divergences; theorems on draws speak of whole orders."""

    def sampled(order: float) -> float:
        if math.isinf(mechanism.rdp(order)):
            return math.inf
        if adjacency is Adjacency.REPLACE_ONE:
            return max(0.0, fixed_size_upper(mechanism.rdp, rate, int(order)))
        factor = 1.0 if isinstance(mechanism, RdpTable) and mechanism.odd_moments == "nonnegative" else 3.0
        return max(0.0, poisson_upper(mechanism.rdp, rate, int(order), factor=factor))

    points = known(mechanism.rdp, mechanism.orders) if rate == 1 else known(sampled, range(2, LARGEST_ORDER + 1))
    return RdpCurve(name=f"{mechanism!r} drawn at {rate!r}, {adjacency}", points=points)
