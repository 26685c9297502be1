"""Release trees: the form in which accountants see a training run.

`Single` is one step in one direction; `Repeat` and `Chain` compose adaptively; `Revealed` is a release under a public
draw that may miss the unit. `step_counts` flattens a tree.

Source: docs/theory.md, Theorem 2.4 and Theorem 2.7.
"""

from collections import Counter

from dpcalc.errors import InputError
from dpcalc.losses.moments import Curve, RevealedSubsample
from dpcalc.losses.profile import PrivacyProfile, PublicMixture
from dpcalc.mechanisms.pate import PateMechanism
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import All


@dataclass(frozen=True, kw_only=True)
class Single:
    """One step in one direction.

    Attributes:
        curve: its privacy loss, an upper bound; hashable, equal for equal steps.
    """

    curve: Curve


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Adaptive composition of `count` copies of one release.

    Attributes:
        node: the release that is repeated.
        count: whole number >= 0.
    """

    node: "Release"
    count: int

    def __post_init__(self) -> None:
        """Raise InputError for a negative count."""
        if self.count < 0:
            raise InputError(f"count: expected a whole number >= 0, got {self.count}")


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Adaptive composition of several releases.

    Attributes:
        nodes: the releases; their order does not change the cost.
    """

    nodes: tuple["Release", ...]


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """A release under a draw that is public and has the same law in D and D'; the loss is 0 where it misses the unit.

    Attributes:
        node: the release when the draw hits.
        rate: probability that it hits, in [0, 1].
    """

    node: "Release"
    rate: float

    def __post_init__(self) -> None:
        """Raise InputError for a rate outside [0, 1]."""
        if not 0 <= self.rate <= 1:
            raise InputError(f"rate: expected a probability in [0, 1], got {self.rate!r}")


Release = Single | Repeat | Chain | Revealed


def step_counts(release: Release) -> dict[Curve, int]:
    """Return {step: number of times it occurs} of a release; public draws become one step, count 0 is left out."""
    counts: Counter[Curve] = Counter()
    match release:
        case Single():
            counts[release.curve] = 1
        case Repeat():
            for curve, count in step_counts(release.node).items():
                counts[curve] += count * release.count
        case Chain():
            for node in release.nodes:
                counts.update(step_counts(node))
        case Revealed(rate=rate):
            counts.update(_under_public_draw(step_counts(release.node), rate))
    return {curve: count for curve, count in counts.items() if count}


def _under_public_draw(counts: dict[Curve, int], rate: float) -> dict[Curve, int]:
    """Return {step under a public draw: 1}, a profile if one step has one; {} for rate 0, `counts` for rate 1."""
    # A single step with a privacy profile keeps one, as a mixture of profiles. Several steps have no profile before
    # they are composed, so that accountants mix the draw in afterwards.
    if rate in {0, 1} or not counts:
        return counts if rate else {}
    ((curve, count), *more) = counts.items()
    if not more and count == 1 and isinstance(curve, PrivacyProfile):
        return {PublicMixture(weights=(rate,), profiles=(curve,)): 1}
    return {RevealedSubsample(rate=rate, counts=tuple(counts.items())): 1}


# PATE: the answers of teachers, whatever the votes are (docs/theory.md, Theorem 12.1)
#
# A unit of the first level is a teacher with all its data. Neighbouring data sets differ in the data of one teacher at
# most, whose vote moves from one label to another, or is missing.


def ensemble_refusal(mechanism: PateMechanism, hierarchy: Hierarchy) -> str:
    """Return why no bound covers PATE here, "expected X, got Y" (episodes, or a level not `all`); "" otherwise.

    Args:
        mechanism: how the votes are answered.
        hierarchy: levels and schemes; each level must be drawn whole, without episodes.
    """
    if hierarchy.episodes is not None:
        return f"expected teachers who all vote with {mechanism.name}, got constructed tasks"
    for level in hierarchy.levels:
        if not isinstance(level.scheme, All):
            return f"expected scheme all at every level with {mechanism.name}, got {level.scheme.name} ({level.name})"
    return ""


def query_release(mechanism: PateMechanism, *, group_size: int, queries: int) -> Release:
    """Return `queries` answers of PATE teachers as a release for both directions, whatever the votes are.

    Args:
        mechanism: how each query is answered.
        group_size: number of units protected together, each perhaps of another teacher.
        queries: number of queries, >= 0.

    Source: docs/theory.md, Theorem 12.1.
    """
    each = Chain(nodes=tuple(Single(curve=curve) for curve in mechanism.aggregation.dominating_curves(group_size)))
    return Repeat(node=each, count=queries)
