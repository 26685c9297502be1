"""Capping: the mass of privacy losses above a limit becomes one atom, or the limit and infinity, and needs no grid.

delta(epsilon) asks of losses above epsilon only for their P and Q mass. The optimistic cap merges {L > x} into one
loss, the pessimistic one into the loss x and infinity; both keep the P mass and the Q mass. They are valid for any
limit, and sharp where it exceeds epsilon by more than the other losses can take back.

For x >= 0 {L > x} is a half-line if the weights p_i - e^x q_i change sign once (Karlin 1968, Total Positivity, theorem
3.1 of chapter 5); segments where that is not certain are left as they are.

Source: docs/theory.md, Theorem 9.7.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from dpcalc.losses.moments import Curve, RevealedSubsample
from dpcalc.losses.pair import MixturePair, Segment
from dpcalc.losses.profile import half_line_end
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.special import normal_log_cdf

_FAR = 40.0  # deviations from the centers beyond which a normal variable has less mass than any float
_LARGEST = 700.0  # largest exponent of a float
_ROUNDED = 1e-11  # relative margin on a probability and on a loss, far above their round-off


@dataclass(frozen=True, kw_only=True)
class CappedTail:
    """The losses above a limit after capping.

    Attributes:
        loss: the one finite value that they become.
        mass: its P mass.
        infinity_mass: P mass that becomes an infinite loss.
    """

    loss: float
    mass: float
    infinity_mass: float


TailCap = Callable[[float, float, float], CappedTail]
"""From (P mass, log of the Q mass, limit) of the losses above the limit to what they become."""


def cap_pessimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Return the tail moved to the limit and infinity, its P and Q mass kept: delta is never underestimated.

    Args:
        p: P mass of the losses above the limit, > 0.
        log_q: natural log of their Q mass.
        limit: the limit, > 0.

    Source: docs/theory.md, Theorem 9.7.
    """
    # P mass x at the limit has Q mass x e^-limit: what the Q mass does not allow becomes infinite. Rounding the limit
    # down only moves more to infinity.
    loss = limit * (1 - _ROUNDED) - _ROUNDED
    mass = min(p, math.exp(min(log_q + loss, 0.0)))
    return CappedTail(loss=loss, mass=mass, infinity_mass=(p - mass) + _ROUNDED * p)


def cap_optimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Return the tail merged into one loss log(P/Q), a little lowered: delta is never overestimated.

    Args:
        p: P mass of the losses above the limit, > 0.
        log_q: natural log of their Q mass.
        limit: the limit, > 0.

    Source: docs/theory.md, Theorem 9.7.
    """
    loss = max(math.log(p) - log_q, limit)
    return CappedTail(loss=loss * (1 - _ROUNDED) - _ROUNDED, mass=p * (1 - _ROUNDED), infinity_mass=0.0)


@dataclass(frozen=True, kw_only=True)
class Capped:
    """The loss of one step with its values above a limit capped; attributes as of `LossCurve`."""

    segments: tuple[Segment, ...]
    zero_loss_mass: float
    atoms: tuple[tuple[float, ...], tuple[float, ...]]
    infinity_mass: float


def capped(curve: Curve, limit: float, cap: TailCap, *, min_mass: float) -> Curve:
    """Return the loss with values above `limit` capped (inside a public draw too); the same object if nothing changes.

    Args:
        curve: one step in one direction; one known by RDP is returned as it is.
        limit: a loss, > 0.
        cap: `cap_pessimistic` for an upper, `cap_optimistic` for a lower bound on the profile.
        min_mass: P mass from which capping a segment is worth it, > 0.

    Returns:
        `curve` itself if no segment can be capped.
    """
    if isinstance(curve, RdpCurve):
        return curve
    if isinstance(curve, RevealedSubsample):
        counts = tuple((capped(step, limit, cap, min_mass=min_mass), count) for step, count in curve.counts)
        return replace(curve, counts=counts)
    pieces = [_split_off_tail(segment, limit, min_mass) for segment in curve.segments]
    tails = [cap(p, log_q, limit) for _, p, log_q in pieces if p]
    if not tails:
        return curve
    finite = [tail for tail in tails if tail.mass > 0]
    losses, log_masses = curve.atoms
    return Capped(
        segments=tuple(segment for segment, _, _ in pieces),
        zero_loss_mass=curve.zero_loss_mass,
        atoms=(
            (*losses, *(tail.loss for tail in finite)),
            (*log_masses, *(math.log(tail.mass) for tail in finite)),
        ),
        infinity_mass=curve.infinity_mass + math.fsum(tail.infinity_mass for tail in tails),
    )


def _split_off_tail(segment: Segment, limit: float, min_mass: float) -> tuple[Segment, float, float]:
    """Cut losses > limit off: (what stays, their P mass, log Q mass); (segment, 0, 0) if unsure or below min_mass."""
    is_right = _is_right_tail(segment.pair, limit)
    if segment.max_loss <= limit or is_right is None or (is_right and segment.high < math.inf):
        return segment, 0.0, 0.0
    pair = segment.pair.mirrored if is_right else segment.pair
    near = pair.centers[-1] + _FAR * pair.deviation
    end = half_line_end(pair, near, limit)
    if not pair.centers[0] - _FAR * pair.deviation < end < near:
        return segment, 0.0, 0.0
    p = segment.weight * pair.mass_below(end)
    if p < min_mass:
        return segment, 0.0, 0.0
    remaining = (
        replace(segment, high=min(segment.high, -end)) if is_right else replace(segment, low=max(segment.low, end))
    )
    return replace(remaining, max_loss=limit), p, math.log(segment.weight) + _log_q_below(pair, end)


def _is_right_tail(pair: MixturePair, limit: float) -> bool | None:
    """Return True if losses > limit lie at the right end, False if at the left; None if neither is certain."""
    # By Karlin's theorem P - e^limit Q has at most as many sign changes along the line as its weights have. A weight
    # that is 0 up to round-off leaves the number of changes unknown.
    growth = math.expm1(min(limit, _LARGEST))
    gaps = [d - q * growth for d, q in zip(pair.differences, pair.weights_q, strict=True)]
    if any(abs(gap) < 1e-12 * q * growth for gap, q in zip(gaps, pair.weights_q, strict=True)):
        return None  # its sign may be due to rounding
    signs = [gap > 0 for gap in gaps if gap]
    changes = [after for before, after in pairwise(signs) if before != after]
    return changes[0] if len(changes) == 1 else None


def _log_q_below(pair: MixturePair, y: float) -> float:
    """Return log Q(-inf, y)."""
    parts = [
        math.log(weight) + normal_log_cdf((y - center) / pair.deviation)
        for center, weight in zip(pair.centers, pair.weights_q, strict=True)
        if weight
    ]
    return max(parts) + math.log(math.fsum(math.exp(part - max(parts)) for part in parts))
