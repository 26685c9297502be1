"""Basic composition: the epsilons of the steps add up."""

from dpcalc.accountants.answer import Answer
from dpcalc.curves.loss_moments import Curve
from dpcalc.curves.privacy_profile import PrivacyProfile
from dpcalc.errors import UnsupportedError


def basic(counts: dict[Curve, int], *, delta: float) -> Answer:
    """Sum of the steps' epsilons, delta spread evenly over the steps.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound.

    Raises:
        UnsupportedError: if a step has no privacy profile.

    References:
        Dwork, Roth 2014, Theorem 3.16.
    """
    share = delta / sum(counts.values())
    total = sum(count * step_epsilon(curve, share) for curve, count in counts.items())
    return Answer(epsilon=total, note=f"delta {share:.3g} a step")


def step_epsilon(curve: Curve, delta: float) -> float:
    """Epsilon >= 0 of one step in the costlier direction: (epsilon, delta) holds both ways."""
    if not isinstance(curve, PrivacyProfile):
        raise UnsupportedError(f"step: expected one with a privacy profile, got {curve!r}; use pld, rdp or moments")
    return max(curve.epsilon(delta), curve.swapped.epsilon(delta))
