"""When a phase redraws: a one-step bound with the steps that one draw is held for, and the release of a whole phase.

Held draws. Where the protected level is redrawn every T steps, the levels of the same rhythm enter (K) with distances
times sqrt(T): the likelihood ratio of T adaptive Gaussian steps with distances of at most d is at most that of one with
d sqrt(T) in convex order. Ancestors held for longer are revealed: their draw is the same in D and D', and where it
misses the unit nothing happens until the next one. Never the product of all rates.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from dpcalc.curves.loss_moments import Curve
from dpcalc.curves.privacy_profile import PrivacyProfile
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import Bound
from dpcalc.release.step import step_curve
from dpcalc.release.tree import Release, Repeat, Revealed, Sequence, Single


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A bound for one phase and one protected unit.

    Attributes:
        bound: of one step, or of all steps of one draw when `hold` > 1.
        squared: factor on all squared distances.
        hold: steps for which the draw of the protected level is held.
        revealed: (rate, steps) of the draws that are held for longer, outermost first.
        steps_of_a_pass: steps in which the unit takes part once; 1 without a shuffle.
    """

    bound: Bound
    squared: int = 1
    hold: int = 1
    revealed: tuple[tuple[Fraction, int], ...] = ()
    steps_of_a_pass: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether every step is a draw of its own, and nothing but (K)."""
        return self == Timed(bound=self.bound) and isinstance(self.bound, StepBound)


def phase_release(timed: Timed, *, steps: int, noise_multiplier: float) -> tuple[Release, Release]:
    """All steps of a phase in the directions D||D' and D'||D.

    Args:
        timed: the bound and when it applies.
        steps: of the phase, >= 0.
        noise_multiplier: sigma > 0.
    """
    passes = -(-steps // timed.steps_of_a_pass)

    def curve(held: int) -> PrivacyProfile:
        return step_curve(timed.bound, noise_multiplier=noise_multiplier / math.sqrt(timed.squared * held))

    ahead = stretch(passes, timed.revealed, timed.hold, curve)
    return ahead, stretch(passes, timed.revealed, timed.hold, lambda held: curve(held).swapped)


def stretch(
    length: int, revealed: tuple[tuple[Fraction, int], ...], hold: int, curve: Callable[[int], Curve]
) -> Release:
    """Some steps under draws of their own.

    Args:
        length: steps.
        revealed: (rate, steps) of the draws that are revealed, outermost first.
        hold: steps for which the draw below them is held.
        curve: the loss of so many steps of one such draw.
    """
    if revealed:
        (rate, period), *rest = revealed
        nodes: list[Release] = [
            Repeat(node=Revealed(node=stretch(held, tuple(rest), hold, curve), rate=float(rate)), count=number)
            for held, number in _parts(length, period)
        ]
    else:
        nodes = [Repeat(node=Single(curve=curve(held)), count=number) for held, number in _parts(length, hold)]
    return nodes[0] if len(nodes) == 1 else Sequence(nodes=tuple(nodes))


def _parts(length: int, period: int) -> Iterator[tuple[int, int]]:
    """(steps, how often): whole periods, and what is left at the end."""
    whole, rest = divmod(length, period)
    if whole or not rest:
        yield period, whole
    if rest:
        yield rest, 1
