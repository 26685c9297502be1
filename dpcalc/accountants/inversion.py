"""Epsilon by numerical inversion of the moment generating function of the composed loss: accurate, not certified.

    delta(epsilon) = 1/(2 pi i) * integral over c + iR of exp(K(z) - epsilon z) / (z (z + 1)) dz

with K the log moment of the whole run. The trapezoid sum converges geometrically; its aliasing error is what
delta is at distance 2 pi / step, weighted e^{-2 pi c / step}. The cost does not depend on the number of steps.

Source: docs/theory.md, Theorem 9.9.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from operator import attrgetter

import numpy as np

from dpcalc.accountants import costliest_release
from dpcalc.accountants.rdp import MomentBound, best_epsilon
from dpcalc.errors import ConvergenceError
from dpcalc.losses.moments import (
    Curve,
    PublicDraw,
    RdpCurve,
    Steps,
    composed_moments,
    segment_ends,
    total_infinity_mass,
)
from dpcalc.numerics import Complex
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
class InversionResult:
    """An estimate of epsilon >= 0, and the integrand at the nodes of the trapezoid sum that it was read from."""

    epsilon: float
    step: float = 0.0  # distance of the nodes; 0 where epsilon is not from an integral
    z: Complex = field(default_factory=lambda: np.zeros(0, dtype=np.complex128))  # nodes c + i k step, k = 0, 1, ...
    log_moment: Complex = field(default_factory=lambda: np.zeros(0, dtype=np.complex128))  # K(z)
    truncated_mass: float = 0.0  # P mass that each end of a segment may leave out

    def epsilon_change(self, counts: Steps) -> float:
        """Return the first-order change of epsilon if `counts` replaces the steps; nan without an integral."""
        # d epsilon = -(d delta / d K) dK / (d delta / d epsilon), on the same contour.
        if not self.step:
            return math.nan
        order, count = float(self.z[0].real), len(self.z)
        moments = composed_moments(
            counts, max_order=order, truncated_mass=self.truncated_mass, frequency=self.step * count
        )
        change = moments.cumulants_on_line(order, step=self.step, count=count) - self.log_moment
        terms = np.exp(self.log_moment - self.epsilon * self.z) / (self.z + 1)
        terms[0] /= 2
        return float((terms / self.z * change).real.sum() / terms.real.sum())


def inversion(counts: Steps, *, delta: float) -> float:
    """Return an estimate of epsilon >= 0, no bound, within about 1e-9 of the exact value of the one-step bound."""
    # It is 0 for no steps, and infinite if the infinity mass is at least delta; ConvergenceError if its integral
    # converges slowly.
    return largest_inversion({"": counts}, delta=delta)[0].epsilon


def largest_inversion(
    releases: Mapping[str, Steps], *, delta: float, otherwise: Callable[[Steps], float] | None = None
) -> tuple[InversionResult, str]:
    """Return the largest estimate of epsilon and its release's name; by `otherwise` where inversion fails."""
    # Epsilon 0 of "" without any step. What no moments bound, as a step has few losses or the infinity mass uses up
    # delta, comes first.
    starts = dict[int, MomentBound | None]()  # by id of the steps

    def start_of(counts: Steps) -> MomentBound | None:
        if id(counts) not in starts:
            left = 0.0 if any(map(_has_few_losses, counts)) else delta - total_infinity_mass(counts)
            truncated_mass = _truncated_mass(counts, left)
            starts[id(counts)] = best_epsilon(counts, delta=delta, truncated_mass=truncated_mass) if left > 0 else None
        return starts[id(counts)]

    def answer(counts: Steps) -> InversionResult:
        try:
            return _invert(counts, start_of(counts), delta)
        except ConvergenceError:
            if otherwise is None:
                raise
            return InversionResult(otherwise(counts))

    def ceiling(counts: Steps) -> float:
        start = start_of(counts)
        return math.inf if start is None else start.value

    some = {name: counts for name, counts in releases.items() if counts}
    if not some:
        return InversionResult(0.0), ""
    return costliest_release(some, answer=answer, cost=attrgetter("epsilon"), ceiling=ceiling)


def _truncated_mass(counts: Steps, delta: float) -> float:
    """Return the P mass that each end of a segment may leave out: 4e-11 of delta in all."""
    return 4 * _NEGLECTED * delta / segment_ends(counts)


def _has_few_losses(curve: Curve) -> bool:
    """Return True if the integral diverges: for an RdpCurve, 1 to 63 atoms alone, or a public draw of such steps."""
    if isinstance(curve, PublicDraw):
        return all(_has_few_losses(step) for step, _ in curve.counts)
    return isinstance(curve, RdpCurve) or (not curve.segments and 0 < len(curve.losses) < _MIN_VALUES)


def _invert(counts: Steps, start: MomentBound | None, delta: float) -> InversionResult:
    """Return the estimate of epsilon, inf if `start` is None, 0 if that is <= 0; ConvergenceError for few losses."""
    if any(_has_few_losses(curve) for curve in counts):
        raise ConvergenceError("inversion: expected a loss of many values, a step has few; use pld")
    if start is None:
        return InversionResult(math.inf)
    delta -= total_infinity_mass(counts)
    truncated_mass = _truncated_mass(counts, delta)
    if start.value <= 0:
        return InversionResult(0.0)
    order = start.order
    # How far from epsilon tilted losses still matter for delta. What lies `reach` above weighs at most exp(K(c + u) -
    # K(c) - u (epsilon + reach)) for every u > 0, what lies as far below at most e^{-c reach}.
    orders, moments = start.order * np.array([1.0, 1.05, 1.1, 1.2, 1.4, 1.8, 2.5]), start.moments
    if start.max_order >= _MIN_REACH * start.order:
        orders = np.minimum(orders, start.max_order)
    else:
        moments = composed_moments(counts, max_order=float(orders[-1]), truncated_mass=truncated_mass)
    value, _ = moments.cumulants(orders)
    above = float(((value[1:] - value[0] + _ALIASING) / (orders[1:] - orders[0])).min()) - 0.5 * start.value
    step = 2 * math.pi / max(above, (_ALIASING - math.log(delta)) / start.order)

    # A line so long that the last terms of the sum vanish for good. Nine inverse deviations of the tilted loss far the
    # transform has fallen off. Where few rare large losses make the sum it revives at higher frequencies: if they are
    # nearly equal, as large jumps are, their sum is nearly on a lattice, and the transform comes back at multiples of 2
    # pi over such a loss, E[L^2] / |E[L]|.
    variance, fourth = moments.tilted_moments(order)
    is_rare = fourth / max(variance**2, 1e-300) > _RARE_KURTOSIS  # excess kurtosis
    frequency = (_REVIVALS if is_rare else 1) * 9 / math.sqrt(max(variance, 1e-300))
    squares = means = 0.0
    for of_step, number in start.moments.parts:
        mean = float(of_step.cumulants(np.array([order]))[1][0])
        squares += number * (of_step.tilted_moments(order)[0] + mean**2)
        means += number * abs(mean)
    revival = 2 * math.pi / max(squares / max(means, 1e-300), 1e-300)
    while True:
        count = max(16, math.ceil(frequency / step))
        moments = composed_moments(counts, max_order=order, truncated_mass=truncated_mass, frequency=frequency)
        if count > _MAX_TERMS or count * moments.size > _MAX_WORK:
            raise ConvergenceError("inversion: no estimate, since its sum converges slowly; pld needs no such sum")
        z = (order + 1j * step * np.arange(count)).astype(np.complex128)
        log_moment = moments.cumulants_on_line(order, step=step, count=count)
        size = np.abs(np.exp(log_moment[-4:] - log_moment[0]) * (z[0] * (z[0] + 1)) / (z[-4:] * (z[-4:] + 1)))
        again, covered = 0.0, float(z[-1].imag)
        converged = float(size.max()) < _CONVERGED / 10
        if converged and _MULTIPLES * revival > covered:
            # Beyond the last revival of the integrand above what is covered, if there is one.
            moments = composed_moments(
                counts, max_order=order, truncated_mass=truncated_mass, frequency=_MULTIPLES * revival
            )
            values = moments.cumulants_on_line(order, step=revival, count=_MULTIPLES + 1)
            frequencies = revival * np.arange(_MULTIPLES + 1)
            sizes = np.exp((values - values[0]).real) * order * (order + 1) / np.abs(order + 1j * frequencies) ** 2
            alive = (frequencies > covered) & (sizes > _CONVERGED)
            again = 1.1 * float(frequencies[alive].max()) if alive.any() else 0.0
        if converged and not again:
            break
        frequency = max(2 * frequency, again)

    def delta_and_slope(epsilon: float) -> tuple[float, float]:
        """Return (delta, d delta / d epsilon) by the trapezoid sum; ConvergenceError if its last terms are large."""
        # The integrand at the conjugate nodes is the conjugate: twice the real part of half the sum.
        terms = np.exp(log_moment - epsilon * z) / (z + 1)
        terms[0] /= 2
        value = float((terms / z).real.sum()) * step / math.pi
        tail = float(np.abs((terms / z)[-4:]).max()) * step
        if not tail <= _CONVERGED * max(value, 1e-300):
            raise ConvergenceError(
                "inversion: no estimate, since the last terms of its sum are not small; pld needs no such sum"
            )
        return value, -float(terms.real.sum()) * step / math.pi

    # Newton's method for log delta, which is nearly linear.
    epsilon = start.value
    for _ in range(60):
        value_there, slope = delta_and_slope(epsilon)
        if value_there <= 0 or slope >= 0:
            break
        move = value_there / slope * math.log(value_there / delta)
        epsilon -= move
        if epsilon <= 0:
            if delta_and_slope(0.0)[0] <= delta * (1 + 1e-9):
                return InversionResult(0.0, step, z, log_moment, truncated_mass)
            break
        if abs(move) <= 1e-13 * epsilon:
            return InversionResult(epsilon, step, z, log_moment, truncated_mass)
    raise ConvergenceError("inversion: expected Newton's iteration to converge, it does not; try --method pld")
