"""Every training run is a small tree of releases; an accountant sees only what is here.

`Single` is one step in one direction. `Repeat` and `Sequence` compose adaptively, `Revealed` is a release that a draw
which everybody sees lets touch the unit, or not. Alternatives (the two directions) are a `WorstOf` at the root.
Composition adds losses, and adding is commutative, so what an accountant needs is how often each step occurs:
`step_counts`, the only place that multiplies counts.
"""

from collections import Counter
from dataclasses import dataclass

from dpcalc.curves.held import Held
from dpcalc.curves.loss_moments import Curve
from dpcalc.curves.privacy_profile import PrivacyProfile
from dpcalc.curves.told_apart import ToldApart
from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Single:
    """One step, one direction.

    Attributes:
        curve: its privacy loss; hashable, equal for equal steps.
    """

    curve: Curve


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The same release `count` times, adaptively.

    Attributes:
        node: what is repeated.
        count: whole number >= 0.
    """

    node: "Release"
    count: int

    def __post_init__(self) -> None:
        """Refuse a negative count."""
        if self.count < 0:
            raise InputError(f"count: expected a whole number >= 0, got {self.count}")


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """Releases one after the other, adaptively.

    Attributes:
        nodes: in order; the order does not matter.
    """

    nodes: tuple["Release", ...]


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """A release under a draw that is the same in D and D' and is revealed: the loss is 0 where it misses the unit.

    Attributes:
        node: what happens when the draw hits.
        rate: probability of that, in [0, 1].
    """

    node: "Release"
    rate: float

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 <= self.rate <= 1:
            raise InputError(f"rate: expected a probability in [0, 1], got {self.rate!r}")


Release = Single | Repeat | Sequence | Revealed


@dataclass(frozen=True, kw_only=True)
class WorstOf:
    """Alternatives of which the costliest counts, the same choice for the whole run.

    Attributes:
        releases: by name, e.g. the direction "D||D'".
    """

    releases: dict[str, Release]


def step_counts(release: Release) -> dict[Curve, int]:
    """How often each different step occurs; steps that never occur are left out."""
    counts: Counter[Curve] = Counter()
    match release:
        case Single():
            counts[release.curve] = 1
        case Repeat():
            for curve, count in step_counts(release.node).items():
                counts[curve] += count * release.count
        case Sequence():
            for node in release.nodes:
                counts.update(step_counts(node))
        case Revealed(rate=rate):
            counts.update(_revealed(step_counts(release.node), rate))
    return {curve: count for curve, count in counts.items() if count}


def _revealed(counts: dict[Curve, int], rate: float) -> dict[Curve, int]:
    """One loss for all the steps under a revealed draw; a single step keeps its profile."""
    if rate in {0, 1} or not counts:
        return counts if rate else {}
    ((curve, count), *more) = counts.items()
    if not more and count == 1 and isinstance(curve, PrivacyProfile):
        return {ToldApart(weights=(rate,), profiles=(curve,)): 1}
    return {Held(rate=rate, counts=tuple(counts.items())): 1}
