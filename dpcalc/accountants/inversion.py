"""Epsilon by numerical inversion of the moment generating function of the composed loss: accurate, not certified.

    delta(epsilon) = 1/(2 pi i) * integral over c + iR of exp(K(z) - epsilon z) / (z (z + 1)) dz

with K the log moment of the whole run. The trapezoid sum converges geometrically; its aliasing error is what
delta is at distance 2 pi / step, weighted e^{-2 pi c / step}. The cost does not depend on the number of steps.

Source: docs/theory.md, Theorem 9.9.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from dpcalc.accountants.rdp import MomentBound, best_epsilon
from dpcalc.accountants.result import StepCounts
from dpcalc.arrays import Array, Complex
from dpcalc.errors import ConvergenceError
from dpcalc.losses.moments import (
    ComposedMoments,
    Curve,
    RevealedSubsample,
    composed_moments,
    segment_ends,
    total_infinity_mass,
)
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.records import dataclass

INVERSION_ERROR = 1e-9  # relative error of an estimate: measured, not certified
_NEGLECTED = 1e-11  # share of delta that truncated tails may have: the estimate is good to 1e-9
_ALIASING = 25.0  # e^-25 = 1e-11 of delta is the error of the trapezoid sum
_CONVERGED = 1e-11  # size of the last terms against the sum at which it is cut
_MAX_TERMS = 512  # of the sum; slower integrals are left to pld
_MIN_VALUES = 64  # number of values of a loss below which its transform need not fall off
# Excess kurtosis above which few large losses make the sum, and the factor on the frequencies searched then.
_RARE_KURTOSIS, _REVIVALS = 0.02, 8
_MIN_REACH = 1.5  # times the order up to which moments must reach to tell how far losses go: less would make long sums
_MULTIPLES = 4  # of the frequency 2 pi / (typical large loss), at which the transform may revive
_MAX_WORK = 4_000_000  # terms times quadrature nodes


@dataclass(frozen=True)
class Contour:
    """The integrand's part that does not depend on epsilon, at the nodes of the trapezoid sum.

    Attributes:
        z: nodes c + i k step, k = 0, 1, ..., shape (n,).
        log_moment: K(z), shape (n,).
        step: distance of the nodes.
    """

    z: Complex
    log_moment: Complex
    step: float

    def delta_and_slope(self, epsilon: float) -> tuple[float, float]:
        """Return (delta, d delta / d epsilon) by the trapezoid sum; ConvergenceError if its last terms are large."""
        # The integrand at the conjugate nodes is the conjugate: twice the real part of half the sum.
        terms = np.exp(self.log_moment - epsilon * self.z) / (self.z + 1)
        terms[0] /= 2
        delta = float((terms / self.z).real.sum()) * self.step / math.pi
        slope = -float(terms.real.sum()) * self.step / math.pi
        tail = float(np.abs((terms / self.z)[-4:]).max()) * self.step
        if not tail <= _CONVERGED * max(delta, 1e-300):
            raise ConvergenceError(
                "inversion: no estimate, since the last terms of its sum are not small; pld needs no such sum"
            )
        return delta, slope


@dataclass(frozen=True)
class InversionResult:
    """An estimate of epsilon, and the contour integral that it was read from.

    Attributes:
        epsilon: >= 0.
        contour: at which delta(epsilon) is as wanted; None where epsilon is not from an integral.
        truncated_mass: P mass that each end of a segment may leave out.
    """

    epsilon: float
    contour: Contour | None = None
    truncated_mass: float = 0.0

    def epsilon_change(self, counts: StepCounts) -> float:
        """Return the first-order change of epsilon if `counts` replaces the steps; nan without a contour.

        d epsilon = -(d delta / d K) dK / (d delta / d epsilon), on the same contour; nan without one.
        """
        if self.contour is None:
            return math.nan
        z, step = self.contour.z, self.contour.step
        order, count = float(z[0].real), len(z)
        moments = composed_moments(counts, max_order=order, truncated_mass=self.truncated_mass, frequency=step * count)
        change = moments.cumulants_on_line(order, step=step, count=count) - self.contour.log_moment
        terms = np.exp(self.contour.log_moment - self.epsilon * z) / (z + 1)
        terms[0] /= 2
        return float((terms / z * change).real.sum() / terms.real.sum())


def inversion(counts: dict[Curve, int], *, delta: float) -> float:
    """Return an estimate of epsilon, no bound, within about 1e-9; ConvergenceError if its integral converges slowly.

    It is 0 for no steps, and infinite if the infinity mass is at least delta.

    epsilon >= 0, an estimate of the exact value of the composed one-step bound, about 1e-9 relative.
    """
    return _invert(counts, _starting_bound(counts, delta), delta).epsilon if counts else 0.0


def largest_inversion(
    releases: Mapping[str, StepCounts], *, delta: float, otherwise: Callable[[StepCounts, ConvergenceError], float]
) -> tuple[InversionResult, str]:
    """Return the largest estimate of epsilon and its release's name; `otherwise` gives epsilon where inversion fails.

    An estimate as of `inversion`, and the alternative that has it; epsilon 0 of "" without any step.
    """
    # From the highest moment bound down: once a bound is below the largest estimate no later release can cost more.
    starts = {name: _starting_bound(counts, delta) for name, counts in releases.items() if counts}
    largest, costliest = InversionResult(0.0), ""
    for name in sorted(starts, key=lambda name: -_moment_bound_value(starts[name])):
        if costliest and _moment_bound_value(starts[name]) <= largest.epsilon:
            break
        try:
            result = _invert(releases[name], starts[name], delta)
        except ConvergenceError as error:
            result = InversionResult(otherwise(releases[name], error))
        if not costliest or result.epsilon > largest.epsilon:
            largest, costliest = result, name
    return largest, costliest


def _truncated_mass(counts: StepCounts, delta: float) -> float:
    """Return the P mass that each end of a segment may leave out: 4e-11 of delta in all."""
    return 4 * _NEGLECTED * delta / segment_ends(counts.items())


def _starting_bound(counts: StepCounts, delta: float) -> MomentBound | None:
    """Return the moment bound to start from; None if a step has few losses or the infinity mass uses up delta."""
    if any(_has_few_losses(curve) for curve in counts):
        return None
    left = delta - total_infinity_mass(counts.items())
    return best_epsilon(counts, delta=delta, truncated_mass=_truncated_mass(counts, left)) if left > 0 else None


def _moment_bound_value(start: MomentBound | None) -> float:
    """Return the bound's value; inf for None."""
    return math.inf if start is None else start.value


def _invert(counts: StepCounts, start: MomentBound | None, delta: float) -> InversionResult:
    """Return the estimate of epsilon, inf if `start` is None, 0 if that is <= 0; ConvergenceError for few losses."""
    if any(_has_few_losses(curve) for curve in counts):
        raise ConvergenceError("inversion: expected a loss of many values, a step has few; use pld")
    if start is None:
        return InversionResult(math.inf)
    delta -= total_infinity_mass(counts.items())
    truncated_mass = _truncated_mass(counts, delta)
    if start.value <= 0:
        return InversionResult(0.0)
    orders, moments = _orders_from_start(counts, start, truncated_mass)
    step = 2 * math.pi / _reach(orders, moments, start, delta)
    contour = _contour(counts, start, step, _fading_frequency(moments, start.order), truncated_mass)
    return InversionResult(_newton_root(contour, start.value, delta), contour, truncated_mass)


def _has_few_losses(curve: Curve) -> bool:
    """Return True if the integral diverges: for an RdpCurve, 1 to 63 atoms alone, or a public draw of such steps."""
    if isinstance(curve, RevealedSubsample):
        return all(_has_few_losses(step) for step, _ in curve.counts)
    return isinstance(curve, RdpCurve) or (not curve.segments and 0 < len(curve.atoms[0]) < _MIN_VALUES)


def _orders_from_start(
    counts: dict[Curve, int], start: MomentBound, truncated_mass: float
) -> tuple[Array, ComposedMoments]:
    """Return (orders from `start.order` to at most 2.5 times it, moments of the steps that are good for them)."""
    orders = start.order * np.array([1.0, 1.05, 1.1, 1.2, 1.4, 1.8, 2.5])
    if start.max_order >= _MIN_REACH * start.order:
        return np.minimum(orders, start.max_order), start.moments
    return orders, composed_moments(counts, max_order=float(orders[-1]), truncated_mass=truncated_mass)


def _reach(orders: Array, moments: ComposedMoments, start: MomentBound, delta: float) -> float:
    """Return how far from epsilon the losses tilted by orders[0] still matter for delta, above or below it."""
    # What lies `reach` above weighs at most exp(K(c + u) - K(c) - u (epsilon + reach)) for every u > 0, what lies as
    # far below at most e^{-c reach}.
    value, _ = moments.cumulants(orders)
    above = float(((value[1:] - value[0] + _ALIASING) / (orders[1:] - orders[0])).min()) - 0.5 * start.value
    return max(above, (_ALIASING - math.log(delta)) / start.order)


def _fading_frequency(moments: ComposedMoments, order: float) -> float:
    """Return nine inverse deviations of the loss tilted by `order`, 8 times as many if few rare losses make the sum."""
    # There the transform has fallen off; where few rare large losses make the sum it revives at higher frequencies.
    variance, fourth = moments.tilted_moments(order)
    is_rare = fourth / max(variance**2, 1e-300) > _RARE_KURTOSIS  # excess kurtosis
    return (_REVIVALS if is_rare else 1) * 9 / math.sqrt(max(variance, 1e-300))


def _contour(
    counts: dict[Curve, int], start: MomentBound, step: float, frequency: float, truncated_mass: float
) -> Contour:
    """Return a contour so long that the last terms of its sum vanish for good; ConvergenceError if it is too long."""
    order = start.order
    while True:
        count = max(16, math.ceil(frequency / step))
        moments = composed_moments(counts, max_order=order, truncated_mass=truncated_mass, frequency=frequency)
        if count > _MAX_TERMS or count * moments.size > _MAX_WORK:
            raise ConvergenceError("inversion: no estimate, since its sum converges slowly; pld needs no such sum")
        z = (order + 1j * step * np.arange(count)).astype(np.complex128)
        log_moment = moments.cumulants_on_line(order, step=step, count=count)
        size = np.abs(np.exp(log_moment[-4:] - log_moment[0]) * (z[0] * (z[0] + 1)) / (z[-4:] * (z[-4:] + 1)))
        converged = float(size.max()) < _CONVERGED / 10
        again = _revival_frequency(counts, start, float(z[-1].imag), truncated_mass) if converged else 0.0
        if converged and not again:
            return Contour(z, log_moment, step)
        frequency = max(2 * frequency, again)


def _typical_large_loss(moments: ComposedMoments, order: float) -> float:
    """Return E[L^2] / |E[L]| of the steps' losses L tilted by `order`, both summed over the steps."""
    means = [
        (float(log_moments.cumulants(np.array([order]))[1][0]), log_moments.tilted_moments(order)[0], count)
        for log_moments, count in moments.parts
    ]
    squares = sum(n * (variance + mean**2) for mean, variance, n in means)
    return squares / max(sum(n * abs(mean) for mean, _, n in means), 1e-300)


def _revival_frequency(counts: dict[Curve, int], start: MomentBound, covered: float, truncated_mass: float) -> float:
    """Return a frequency beyond the last revival of the integrand above `covered`; 0 if it does not revive."""
    # Where the losses that make the sum are nearly equal, as large jumps are, their sum is nearly on a lattice, and the
    # transform comes back at multiples of 2 pi over such a loss, E[L^2] / E[L] of the tilted loss.
    order = start.order
    step = 2 * math.pi / max(_typical_large_loss(start.moments, order), 1e-300)
    if _MULTIPLES * step <= covered:
        return 0.0
    moments = composed_moments(counts, max_order=order, truncated_mass=truncated_mass, frequency=_MULTIPLES * step)
    log_moment = moments.cumulants_on_line(order, step=step, count=_MULTIPLES + 1)
    frequencies = step * np.arange(_MULTIPLES + 1)
    size = np.exp((log_moment - log_moment[0]).real) * order * (order + 1) / np.abs(order + 1j * frequencies) ** 2
    alive = (frequencies > covered) & (size > _CONVERGED)
    return 1.1 * float(frequencies[alive].max()) if alive.any() else 0.0


def _newton_root(contour: Contour, bound: float, delta: float) -> float:
    """Return the epsilon >= 0 at which the contour's delta is `delta`, by Newton's method; ConvergenceError if none."""
    epsilon = bound
    for _ in range(60):
        value, slope = contour.delta_and_slope(epsilon)
        if value <= 0 or slope >= 0:
            break
        move = value / slope * math.log(value / delta)  # Newton's step for log delta, which is nearly linear
        epsilon -= move
        if epsilon <= 0:
            if contour.delta_and_slope(0.0)[0] <= delta * (1 + 1e-9):
                return 0.0
            break
        if abs(move) <= 1e-13 * epsilon:
            return epsilon
    raise ConvergenceError("inversion: expected Newton's iteration to converge, it does not; try --method pld")
