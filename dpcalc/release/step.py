"""From one phase's sampling and mechanism to the loss curves of one step, one for each direction."""

from collections.abc import Iterable
from fractions import Fraction

from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.privacy_profile import GluedProfile
from dpcalc.release.bounds import StepBound


def glued_profile(bound: StepBound, *, noise_multiplier: float) -> GluedProfile:
    """The profile of (K) in direction D||D'; `swapped` gives D'||D.

    Args:
        bound: distances and probabilities of one step, inclusion > 0.
        noise_multiplier: sigma > 0, noise deviation in clip norms.

    Returns:
        An upper bound on the profile of one step.
    """
    own = MixturePair.of(*bound_mixtures(bound, bound.distances), deviation=noise_multiplier)
    other = MixturePair.of(*bound_mixtures(bound, bound.distances_swapped), deviation=noise_multiplier)
    return GluedProfile(own=own, other=other, shift=float(bound.shift))


def bound_mixtures(bound: StepBound, distances: Iterable[int]) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """(P, Q) of (K): eta N(0) + sum_j v_j N(d_j) against eta N(s) + sum_j v_j N(d_j), weight by center.

    Args:
        bound: one step's parameters.
        distances: `bound.distances` for D||D', `bound.distances_swapped` for D'||D.
    """
    common: dict[int, Fraction] = {}
    for weight, distance in zip(bound.missed, distances, strict=True):
        if weight:
            common[distance] = common.get(distance, Fraction(0)) + weight
    p, q = dict(common), dict(common)
    p[0] = p.get(0, Fraction(0)) + bound.inclusion
    q[bound.shift] = q.get(bound.shift, Fraction(0)) + bound.inclusion
    return p, q
