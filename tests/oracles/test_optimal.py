"""Optimal composition against brute force at 50 digits, and against its weaker relatives."""

import math
from itertools import product

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.accountants.closed_forms import different_steps, equal_steps
from dpcalc.errors import ConvergenceError

EPSILONS = st.floats(-4, 1.5).map(lambda x: 10**x)
DELTAS = st.floats(-20, -0.01).map(lambda x: 10**x)


def losses(epsilons):
    """(loss, probability) of every pattern of answers to as many bits."""
    signs = product((1, -1), repeat=len(epsilons))
    total = [sum(sign * mpmath.mpf(e) for sign, e in zip(pattern, epsilons, strict=True)) for pattern in signs]
    scale = mpmath.fprod(2 * mpmath.cosh(mpmath.mpf(e) / 2) for e in epsilons)
    return [(loss, mpmath.exp(loss / 2) / scale) for loss in total]


def equal_hockey_stick(epsilon, count, at):
    """H(at) of `count` equal steps, from the largest term with a positive part towards l = 0."""
    e, k = mpmath.mpf(epsilon), mpmath.mpf(count)
    first = min(count, int(mpmath.ceil((k - at / e) / 2)) - 1)
    if first < 0:
        return mpmath.mpf(0)
    mass = mpmath.binomial(k, first) * mpmath.exp((k - first) * e - k * mpmath.log1p(mpmath.exp(e)))
    total = mpmath.mpf(0)
    for false in range(first, -1, -1):
        total += mass * -mpmath.expm1(at - (k - 2 * false) * e)
        mass *= false * mpmath.exp(e) / (k - false + 1)
        if false < (count / (1 + mpmath.exp(e))) and mass < total * mpmath.mpf("1e-25"):
            break
    return total


def hockey_stick(atoms, epsilon):
    return mpmath.fsum(-mass * mpmath.expm1(epsilon - loss) for loss, mass in atoms if loss > epsilon)


def is_smallest(epsilon, count, delta, *, within="1e-10"):
    ours = mpmath.mpf(equal_steps(epsilon, count, delta=delta))
    if ours:
        assert equal_hockey_stick(epsilon, count, ours - mpmath.mpf(within) * max(1, ours)) > delta
    return equal_hockey_stick(epsilon, count, ours * (1 + mpmath.mpf("1e-15"))) <= delta


@settings(deadline=None)
@given(epsilon=EPSILONS, count=st.integers(1, 60), delta=DELTAS)
def test_equal_steps_are_exact(epsilon, count, delta):
    with mpmath.workdps(50):
        assert is_smallest(epsilon, count, delta)


@pytest.mark.heavy
@pytest.mark.parametrize(("epsilon", "count", "delta"), [(1e-3, 10**6, 1e-5), (0.5, 10**5, 1e-12), (3, 10**6, 1e-300)])
def test_many_equal_steps_are_exact(epsilon, count, delta):
    """The sums' round-off is paid for: more terms, a little more epsilon."""
    with mpmath.workdps(50):
        assert is_smallest(epsilon, count, delta, within="1e-8")


@pytest.mark.heavy
@settings(deadline=None)
@given(epsilons=st.lists(EPSILONS, min_size=1, max_size=7), delta=DELTAS)
def test_different_steps_are_bounded(epsilons, delta):
    with mpmath.workdps(30):
        bound = different_steps([(e, 1) for e in epsilons], delta=delta)
        assert hockey_stick(losses(epsilons), mpmath.mpf(bound) * (1 + mpmath.mpf("1e-14"))) <= delta


@settings(deadline=None)
@given(epsilon=EPSILONS, count=st.integers(1, 10**6), delta=DELTAS)
def test_never_above_what_it_improves_on(epsilon, count, delta):
    strong = math.sqrt(2 * count * math.log(1 / delta)) * epsilon + count * epsilon * math.expm1(epsilon)
    closed = different_steps([(epsilon, count)], delta=delta)
    optimal = equal_steps(epsilon, count, delta=delta)
    assert optimal <= closed * (1 + 1e-9) + 1e-9
    assert closed <= min(strong, count * epsilon) * (1 + 1e-12)


def test_the_ends():
    assert equal_steps(0.0, 1000, delta=1e-5) == 0
    assert equal_steps(0.1, 1000, delta=0.0) == pytest.approx(100)
    assert equal_steps(0.1, 1, delta=0.9) == 0
    assert different_steps([(0.1, 10), (0.2, 5)], delta=0.0) == pytest.approx(2)
    with pytest.raises(ConvergenceError):
        equal_steps(0.1, 10**11, delta=1e-5)
