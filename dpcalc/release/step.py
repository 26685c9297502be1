"""From one phase's sampling and mechanism to the loss curves of one step, one for each direction."""

from collections.abc import Iterable
from fractions import Fraction

from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.monotone_pair import MonotonePair
from dpcalc.curves.privacy_profile import GluedProfile, PrivacyProfile
from dpcalc.curves.told_apart import ToldApart
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import Average, Bound, CountPair


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


def step_curve(bound: Bound, *, noise_multiplier: float) -> PrivacyProfile:
    """The profile of a bound in direction D||D'; `swapped` gives D'||D.

    Args:
        bound: one that includes the protected unit at all.
        noise_multiplier: sigma > 0, noise deviation in clip norms.

    Returns:
        An upper bound on the profile of one step.
    """
    match bound:
        case StepBound():
            return glued_profile(bound, noise_multiplier=noise_multiplier)
        case CountPair():
            return MonotonePair(pair=MixturePair.of(*count_mixtures(bound), deviation=noise_multiplier))
        case Average(parts=((chance, one),)) if chance == 1:
            return step_curve(one, noise_multiplier=noise_multiplier)
        case Average(parts=parts):
            return ToldApart(
                weights=tuple(float(chance) for chance, _ in parts),
                profiles=tuple(step_curve(one, noise_multiplier=noise_multiplier) for _, one in parts),
            )


def count_mixtures(bound: CountPair) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """(P, Q) of mixtures over H, weight by center; P to the left."""
    if bound.both_ways:
        half = bound.shift // 2
        return {-half * h: chance for h, chance in bound.law}, {half * h: chance for h, chance in bound.law}
    return {-bound.shift * h: chance for h, chance in bound.law}, {0: Fraction(1)}
