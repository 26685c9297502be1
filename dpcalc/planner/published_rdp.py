"""Renyi divergence of a sampled Gaussian step as general theorems bound it, from the step without sampling alone.

With e(a) = a s^2 / (2 sigma^2), the divergence of order a of the Gaussian mechanism of sensitivity s, rate g and any
whole order a >= 2, natural logarithms, sums over j from 3 to a:

    fixed size   log(1 + g^2 C(a,2) min{4 (e^e(2) - 1), 2 e^e(2)} + 2 sum g^j C(a,j) e^{(j-1) e(j)}) / (a - 1)
    Poisson      log((1-g)^{a-1} (a g - g + 1) + C(a,2) g^2 (1-g)^{a-2} e^e(2)
                     + 3 sum C(a,j) (1-g)^{a-j} g^j e^{(j-1) e(j)}) / (a - 1)
    below both   log((1-g)^a + a g (1-g)^{a-1} + sum_{j >= 2} C(a,j) (1-g)^{a-j} g^j e^{(j-1) e(j)}) / (a - 1)

The last is the divergence of an actual pair of data sets.

References:
    Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9 and Proposition 11; Zhu, Wang 2019 (PMLR 97), Theorem 6.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dpcalc.adjacency import Adjacency
from dpcalc.guarantee import Kind
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import releasing_phases
from dpcalc.sampling.schemes import Fixed, Poisson

Bound = Callable[[int, float, float, float], float]


@dataclass(frozen=True, kw_only=True)
class Published:
    """One of the general bounds for a run.

    Attributes:
        name: of the bound.
        kind: UPPER or LOWER where the theorem speaks of the run's relation, else as published.
        divergence: of the whole run, by whole order >= 2.
    """

    name: str
    kind: Kind
    divergence: Callable[[int], float]


def published_rdp(plan: Plan) -> tuple[Published, ...]:
    """The general bounds for one phase of one level, single units and clipped vectors; else none."""
    phases = releasing_phases(plan)
    if len(phases) != 1 or plan.unit != 1 or plan.group_size != 1:
        return ()
    (phase,) = phases
    level = phase.hierarchy.level(1)
    if phase.hierarchy.depth != 1 or phase.clip != 1 or level.redraw_every != 1:
        return ()
    rate, steps, noise = float(level.rate), phase.steps, phase.mechanism.noise_multiplier

    def whole(bound: Bound, shift: float) -> Callable[[int], float]:
        return lambda order: steps * bound(order, rate, shift, noise)

    match level.scheme:
        case Fixed():
            kind = Kind.UPPER if plan.adjacency is Adjacency.REPLACE_ONE else Kind.AS_PUBLISHED
            shift = 1.0 if plan.adjacency is Adjacency.ZERO_OUT else 2.0
            return (
                Published(name="general upper bound", kind=kind, divergence=whole(fixed_upper, 2.0)),
                Published(name="general lower bound", kind=Kind.LOWER, divergence=whole(lower, shift)),
            )
        case Poisson() if plan.adjacency is not Adjacency.REPLACE_ONE:
            return (
                Published(name="general upper bound", kind=Kind.UPPER, divergence=whole(poisson_upper, 1.0)),
                Published(name="general lower bound", kind=Kind.LOWER, divergence=whole(lower, 1.0)),
            )
        case _:
            return ()


def fixed_upper(order: int, rate: float, shift: float, noise_multiplier: float) -> float:
    """The bound for draws of a fixed size under replacement of one, of one step."""
    second = shift**2 / noise_multiplier**2
    least = min(math.log(4) + _log_expm1(second), math.log(2) + second)
    terms = [0.0, 2 * math.log(rate) + _log_choose(order, 2) + least]
    terms += [
        math.log(2) + j * math.log(rate) + _log_choose(order, j) + _grown(j, shift, noise_multiplier)
        for j in range(3, order + 1)
    ]
    return _log_sum(terms) / (order - 1)


def poisson_upper(order: int, rate: float, shift: float, noise_multiplier: float) -> float:
    """The bound for Poisson draws under add-remove, of one step."""
    if rate == 1:
        return order * shift**2 / (2 * noise_multiplier**2)
    terms = [(order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate)]
    terms += [
        (math.log(3) if j > 2 else 0.0) + _binomial(order, j, rate) + _grown(j, shift, noise_multiplier)
        for j in range(2, order + 1)
    ]
    return _log_sum(terms) / (order - 1)


def lower(order: int, rate: float, shift: float, noise_multiplier: float) -> float:
    """The divergence of a pair of data sets, of one step: (1 - g) N(0) + g N(s) against N(0)."""
    if rate == 1:
        return order * shift**2 / (2 * noise_multiplier**2)
    terms = [_binomial(order, j, rate) + _grown(j, shift, noise_multiplier) for j in range(order + 1)]
    return _log_sum(terms) / (order - 1)


def _grown(j: int, shift: float, noise_multiplier: float) -> float:
    """The exponent (j - 1) e(j)."""
    return j * (j - 1) * shift**2 / (2 * noise_multiplier**2)


def _binomial(order: int, j: int, rate: float) -> float:
    """The log of a binomial probability."""
    return _log_choose(order, j) + (order - j) * math.log1p(-rate) + j * math.log(rate)


def _log_choose(order: int, j: int) -> float:
    """The log of a binomial coefficient."""
    return math.log(math.comb(order, j))


def _log_expm1(x: float) -> float:
    """The log of e^x - 1, x > 0."""
    return x + math.log(-math.expm1(-x))


def _log_sum(terms: Iterable[float]) -> float:
    """The log of a sum of exponentials."""
    all_terms = list(terms)
    top = max(all_terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in all_terms))
