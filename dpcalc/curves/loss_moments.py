"""The privacy loss as weighted quadrature nodes: its log moments K(z) = log E_P[e^{zL}] at any order.

The nodes cover every segment of a curve; what they leave of the mass has loss 0. E[e^{zL}] - 1 is
summed as E[(e^{zL} - 1) + z (e^{-L} - 1)]: the second term adds E_P[e^{-L}] - 1 = 0 and removes the
leading term, so that K keeps its digits when one step leaks next to nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import Segment
from dpcalc.numerics.quadrature import panels

Array = NDArray[np.float64]
_LOG_NEGLIGIBLE = -46.0  # e^-46 = 1e-20: below the round-off of what is kept


class LossCurve(Protocol):
    """What an accountant needs of one step in one direction; hashable, equal for equal steps."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Pieces of the line that carry the losses different from 0."""
        ...


@dataclass(frozen=True)
class LossMoments:
    """Quadrature nodes of one loss curve, good for orders 0 < z <= max_order.

    Attributes:
        log_mass: log of the P mass of each node, shape (n,).
        loss: privacy loss at each node, shape (n,).
        max_order: largest z for which the nodes reach far enough.
    """

    log_mass: Array
    loss: Array
    max_order: float

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """K(z) and K'(z).

        Args:
            orders: z, shape (m,), 0 < z <= max_order.

        Returns:
            (K, K'), natural logarithm, shape (m,) each; accurate to about 1e-12 relative.
        """
        z = orders[:, None]
        raised = self.log_mass + z * self.loss
        top = np.maximum(raised.max(axis=1, keepdims=True), 0.0)
        mass = np.exp(self.log_mass - top)
        small = np.maximum(z, 1.0) * np.abs(self.loss) < 0.5
        plain = np.expm1(np.minimum(z * self.loss, 700.0)) + z * np.expm1(-self.loss)
        bracket = np.where(small, _second_order(z, np.clip(self.loss, -0.5, 0.5)), plain)
        excess = (mass * bracket).sum(axis=1)
        large = top[:, 0] > 0
        if large.any():
            rest = np.exp(raised - top) - mass * (1 - z * np.expm1(-self.loss))
            excess = np.where(large, rest.sum(axis=1), excess)
        moment = np.exp(-top[:, 0]) + excess
        log_moment = np.where(large, np.log(moment) + top[:, 0], np.log1p(excess))
        slope = (np.exp(raised - top) * self.loss).sum(axis=1) / moment
        return log_moment, slope

    def complex_cumulants(self, orders: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """K(z) at complex orders with one common real part.

        Args:
            orders: z, shape (m,), all with the real part of the first, in (0, max_order].

        Returns:
            K, shape (m,), the branch that is continuous along the line does not matter: only e^{nK} is used.
        """
        real = float(orders[0].real)
        raised = self.log_mass + real * self.loss
        top = max(float(raised.max()), 0.0)
        kept = raised > _LOG_NEGLIGIBLE + min(0.0, float(raised.max()))
        loss, mass, tilted = self.loss[kept], np.exp(self.log_mass[kept] - top), np.exp(raised[kept] - top)
        angle = orders.imag[:, None] * loss
        turned = -2 * np.sin(angle / 2) ** 2 + 1j * np.sin(angle)  # e^{i angle} - 1
        straight = tilted - mass if top else mass * np.expm1(real * loss)
        moment = turned @ tilted + straight.sum() + orders * float((mass * np.expm1(-loss)).sum())
        result: NDArray[np.complex128] = np.log(math.exp(-top) + moment) + top
        return result


def _second_order(z: Array, loss: Array) -> Array:
    """(e^{zL} - 1) + z (e^{-L} - 1) by its series; relative error below 1e-15 for |zL|, |L| < 0.5."""
    total = np.zeros(np.broadcast(z, loss).shape)
    up, down = z * loss, -loss + 0 * z
    power_up, power_down = up, down
    for k in range(2, 17):
        power_up = power_up * up / k
        power_down = power_down * down / k
        total = total + power_up + z * power_down
    return total


def loss_moments(curve: LossCurve, *, max_order: float, neglect: float = 0.0) -> LossMoments:
    """Gauss-Legendre nodes of every segment of a curve, for orders up to `max_order`.

    Args:
        curve: one step, one direction.
        max_order: largest z the nodes must serve.
        neglect: P mass that may be left out at each end of each segment; 0 leaves out nothing that matters.
    """
    pieces: Sequence[tuple[Array, Array]] = [_segment_nodes(s, max_order, neglect) for s in curve.segments]
    log_mass = np.concatenate([m for m, _ in pieces])
    loss = np.concatenate([loss for _, loss in pieces])
    return LossMoments(log_mass=log_mass, loss=loss, max_order=max_order)


def _segment_nodes(segment: Segment, max_order: float, neglect: float) -> tuple[Array, Array]:
    """(log mass, loss) of the nodes of one segment."""
    pair = segment.pair
    low, high = reach(segment, max_order, neglect)
    if low >= high:
        return np.zeros(0), np.zeros(0)
    width = min(0.5 * pair.deviation, 0.75 * pair.deviation**2 / max(pair.span, 1e-300))
    count = min(max(8, math.ceil((high - low) / width)), 50_000)
    y, log_weight = panels(low, high, count=count)
    log_density, loss = pair.log_density_and_loss(y)
    log_mass = log_density + log_weight
    keep = np.maximum(log_mass, log_mass + max_order * loss) > _LOG_NEGLIGIBLE + min(0.0, log_mass.max())
    return log_mass[keep], loss[keep]


def reach(segment: Segment, max_order: float, neglect: float) -> tuple[float, float]:
    """The part of a segment outside which e^{zL} P is negligible for 0 <= z <= max_order, or P at most `neglect`.

    The tilt e^{zL} moves a Gaussian by at most z * span, and by at most sigma sqrt(2 z max_loss) where
    the loss is bounded; beyond that its mass falls like the normal tail.
    """
    pair, z = segment.pair, max_order
    moved = min(z * pair.span, pair.deviation * math.sqrt(2 * z * max(0.0, segment.max_loss)))
    slack = moved + pair.deviation * math.sqrt(-2 * _LOG_NEGLIGIBLE)
    low, high = pair.centers[0] - slack, pair.centers[-1] + slack
    if neglect:
        low = max(low, pair.lower_quantile(neglect))
        high = min(high, -pair.mirrored.lower_quantile(neglect))
    return low, min(high, segment.high)
