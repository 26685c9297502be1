"""Basic, advanced and optimal composition of (epsilon, delta) guarantees.

`counts` is always: the steps of one direction and how often each occurs, not empty.

Source: docs/theory.md, Theorem 3.1, Theorem 3.2 and Theorem 3.3.
"""

import math
from collections.abc import Callable

import numpy as np

from dpcalc.accountants.result import AccountantResult
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve, Steps
from dpcalc.work import ELEMENT, spend


def basic(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the sum of the steps' epsilons, each at delta / (number of steps): Dwork, Roth 2014, Theorem 3.16."""
    share = delta / sum(counts.values())
    total = sum(count * step_epsilon(curve, share) for curve, count in counts.items())
    return AccountantResult(epsilon=total, note=f"delta {share:.3g} a step")


def step_epsilon(curve: Curve, delta: float) -> float:
    """Return the larger epsilon at `delta` of `curve` and its swapped pair; UnsupportedError unless a Loss."""
    if not isinstance(curve, Loss):
        raise UnsupportedError(
            "method: expected pld, rdp, rdp-classic or moments, got one that composes "
            "steps by their epsilon and delta, which are not known here for single steps"
        )
    return max(curve.epsilon(delta), curve.swapped.epsilon(delta))


# Fractions of delta that are tried, from 0.84 down to 1e-9. Any is valid, so that the scan costs tightness only.
_FRACTIONS: list[float] = [0.5 ** (k / 4) for k in range(1, 121)]


def advanced(counts: Steps, *, delta: float) -> AccountantResult:
    """Return an upper bound on epsilon by advanced composition at the best split of delta."""
    # With delta' for the theorem and the rest spread evenly over the steps, epsilon = sqrt(2 ln(1/delta') sum eps_i^2)
    # + sum eps_i (e^eps_i - 1): Dwork, Roth 2014, Theorem 3.20; unequal steps by the same martingale.
    steps = sum(counts.values())

    def epsilon_with(fraction: float) -> float:
        share = delta * (1 - fraction) / steps
        squares, drift = 0.0, 0.0
        for curve, count in counts.items():
            epsilon = step_epsilon(curve, share)
            squares += count * epsilon**2
            drift += count * epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf
        return math.sqrt(2 * math.log(1 / (delta * fraction)) * squares) + drift

    best = best_fraction(epsilon_with)
    return AccountantResult(epsilon=epsilon_with(best), note=f"delta' = {best * delta:.3g}")


def best_fraction(epsilon_with: Callable[[float], float]) -> float:
    """Return the fraction in (0, 0.999] with the smallest `epsilon_with` on a geometric grid that is refined twice."""
    coarse = min(_FRACTIONS[::8], key=epsilon_with)
    fine = min((f for f in _FRACTIONS if coarse / 5 < f < 5 * coarse), key=epsilon_with)
    low, high = fine / 2**0.25, min(fine * 2**0.25, 0.999)
    return min((low + (high - low) * k / 16 for k in range(17)), key=epsilon_with)


# Optimal composition: the smallest epsilon that the guarantees (epsilon_0, delta_0) of the steps can prove.
#
# Every (epsilon_0, delta_0)-DP step is post-processing of one that tells all with probability delta_0 and else
# answers a bit by randomized response, true with probability e^epsilon_0 / (1 + e^epsilon_0). Of k such bits l are
# false with probability P(l) = C(k, l) e^((k - l) epsilon_0) / (1 + e^epsilon_0)^k, and the loss is then (k - 2 l)
# epsilon_0. Hence k steps have, at every epsilon, the delta
#
#     1 - (1 - delta_0)^k (1 - H(epsilon)),    H(epsilon) = sum_l P(l) [1 - e^(epsilon - (k - 2 l) epsilon_0)]_+ ,
#
# and no smaller one holds for all such steps (Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 3.3, which states it
# at epsilon = (k - 2 i) epsilon_0; between these points H is linear in e^epsilon).
#
# Source: docs/theory.md, Theorem 3.3.


_DEPTH = 40.0  # -log of the mass that sums leave out, relative to delta or 1: e^-40 is below float64's round-off
_ROUNDOFF = 2.0**-53  # of one float operation, relative
_MAX_STEPS = 10**10  # sums then have about 1e6 terms, which grow with the square root of the steps


def optimal(counts: Steps, *, delta: float) -> AccountantResult:
    """Return epsilon by optimal composition at the best split of delta: exact for equal steps, else a closed form."""
    # For different steps the optimum is #P-complete to compute (Murtagh, Vadhan 2016, 1507.03113). Kairouz, Oh,
    # Viswanath 2015 (1311.0776v4), Theorem 3.3 for equal steps, Theorem 3.5 for different ones.
    steps = sum(counts.values())

    def epsilon_with(fraction: float) -> float:
        share = -math.expm1((1 - fraction) * math.log1p(-delta) / steps)
        delta_composition = -math.expm1(fraction * math.log1p(-delta))
        one_step = [(step_epsilon(curve, share), count) for curve, count in counts.items()]
        if len(one_step) == 1:
            return equal_steps(*one_step[0], delta=delta_composition)
        return different_steps(one_step, delta=delta_composition)

    best = min(best_fraction(epsilon_with), 0.0, key=epsilon_with)
    theorem = "exact" if len(counts) == 1 else "steps differ: closed form"
    return AccountantResult(epsilon=epsilon_with(best), note=f"{theorem}, {best:.2g} of delta for the composition")


def equal_steps(epsilon: float, count: int, *, delta: float) -> float:
    """Return the optimal epsilon of `count` (epsilon, 0)-DP steps, rounded up; ConvergenceError if count > 1e10.

    Example:
        >>> round(equal_steps(0.1, 1, delta=0.0), 12), round(equal_steps(0.1, 1000, delta=1e-6), 3)
        (0.1, 19.345)
    """
    if count > _MAX_STEPS:
        raise ConvergenceError(f"optimal: expected at most {_MAX_STEPS:.0e} equal steps, got {count}; try --method pld")
    if epsilon in {0.0, math.inf} or delta == 0:
        return count * epsilon
    # Log masses P(l) of the numbers l of false answers that matter, from the mode outwards by the ratio P(l + 1) / P(l)
    # = (k - l) / (l + 1) e^-epsilon, scaled to sum to 1. By Bernstein's inequality l lies t below its mean m with
    # probability at most e^(-t^2 / 2m), and t above it at most e^(-t^2 / (2m + 2t/3)). The mass left out on the side of
    # few false answers (large losses) is small against delta, on the other against 1.
    log_delta = math.log(delta)
    mean = count / (1 + math.exp(min(epsilon, 700.0)))
    first = max(0, math.floor(mean - math.sqrt(2 * mean * (_DEPTH - log_delta))))
    last = min(count, math.ceil(mean + _DEPTH / 3 + math.sqrt((_DEPTH / 3) ** 2 + 2 * _DEPTH * mean)))
    mode = min(max(round(mean), first), last)
    spend(10 * ELEMENT * (last - first + 1))
    steps = np.arange(first, last, dtype=np.float64)
    log_ratio = np.log((count - steps) / (steps + 1)) - epsilon
    right = np.cumsum(log_ratio[mode - first :])
    left = -np.cumsum(log_ratio[: mode - first][::-1])[::-1]
    log_p = np.concatenate([left, [0.0], right])
    log_p -= np.logaddexp.reduce(log_p)

    # With A_i = sum_{l < i} P(l) and B_i = sum_{l < i} P(l) e^(-2 (i - l) epsilon_0), H((k - 2 i) epsilon_0) = A_i -
    # B_i, and between the points i - 1 and i the root of H(epsilon) = delta is (k - 2 i) epsilon_0 + log((A_i - delta)
    # / B_i).
    places = np.arange(first + 1, first + 1 + log_p.size)  # i
    turn = 2 * epsilon * (places - 1 - first)  # keeps the sum for B in range
    below = np.logaddexp.accumulate(log_p)
    above = np.logaddexp.accumulate(log_p + turn) - turn - 2 * epsilon
    with np.errstate(divide="ignore"):
        log_h = below + np.log(-np.expm1(np.minimum(above - below, 0.0)))
    at = int(np.argmax(log_h > log_delta))
    if log_h[at] > log_delta:
        slack = 4 * _ROUNDOFF * log_p.size * (_DEPTH - log_delta)
        mass = math.exp(below[at]) * (1 + slack)
        root = (count - 2 * int(places[at])) * epsilon + math.log(mass - delta) - float(above[at]) + slack
    else:
        root = (count - 2 * int(places[-1])) * epsilon
    return min(max(0.0, root), count * epsilon)


def different_steps(one_step: list[tuple[float, int]], *, delta: float) -> float:
    """Return the smallest of the summed epsilons and two closed-form bounds (Theorem 3.5); the sum if delta is 0."""
    plain = sum(count * epsilon for epsilon, count in one_step)
    if delta == 0:
        return plain
    drift = sum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in one_step)
    squares = sum(count * epsilon**2 for epsilon, count in one_step)
    log_room = min(math.log(1 / delta), math.log(math.e + math.sqrt(squares) / delta))
    return min(plain, drift + math.sqrt(2 * squares * log_room))
