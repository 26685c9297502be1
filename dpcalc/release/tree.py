"""Every training run is a small tree of releases; an accountant sees only what is here.

`Single` is one step in one direction. `Repeat` and `Sequence` compose adaptively. Alternatives (the two
directions) are a `WorstOf` at the root. Composition adds losses, and adding is commutative, so what an
accountant needs is how often each step occurs: `step_counts`, the only place that multiplies counts.
"""

from collections import Counter
from dataclasses import dataclass

from dpcalc.curves.loss_moments import LossCurve
from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Single:
    """One step, one direction.

    Attributes:
        curve: its privacy loss; hashable, equal for equal steps.
    """

    curve: LossCurve


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


Release = Single | Repeat | Sequence


@dataclass(frozen=True, kw_only=True)
class WorstOf:
    """Alternatives of which the costliest counts, the same choice for the whole run.

    Attributes:
        releases: by name, e.g. the direction "D||D'".
    """

    releases: dict[str, Release]


def step_counts(release: Release) -> dict[LossCurve, int]:
    """How often each different step occurs; steps that never occur are left out."""
    counts: Counter[LossCurve] = Counter()
    match release:
        case Single():
            counts[release.curve] = 1
        case Repeat():
            for curve, count in step_counts(release.node).items():
                counts[curve] += count * release.count
        case Sequence():
            for node in release.nodes:
                counts.update(step_counts(node))
    return {curve: count for curve, count in counts.items() if count}
