"""Certified ends, moment bounds and inversion against independent oracles, over random one-step bounds."""

import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.errors import ConvergenceError
from tests.oracles.conditioning import Step
from tests.oracles.fine_lattice import estimated_epsilon, lattice_epsilon
from tests.oracles.inversion import inverted_epsilon
from tests.oracles.loss_parts import TooSlowError
from tests.oracles.numerics_problems import generator, random_problem, rare_problem
from tests.thinning import thinned


def ends(problem):
    return epsilon_bounds({problem.profile: problem.steps}, delta=problem.delta, sides=(UPPER, LOWER))


def check(problem, exact, error):
    """Lower <= exact <= upper <= rdp, up to what the oracle itself may be off; the ends."""
    upper, lower = ends(problem)
    assert lower <= exact + error, problem
    assert upper >= exact - error, problem
    assert rdp({problem.profile: problem.steps}, delta=problem.delta).epsilon >= exact - error, problem
    return lower, upper


def check_inversion(problem, exact, error, ends):
    try:
        found = inversion({problem.profile: problem.steps}, delta=problem.delta)
    except ConvergenceError:
        return
    assert found == pytest.approx(exact, rel=1e-7, abs=error + 1e-10), problem
    assert ends[0] - 1e-10 <= found * (1 + 1e-9), problem
    assert found * (1 - 1e-9) <= ends[1] + 1e-10, problem


def settled(problem, most):
    """The oracle's answer, if it finds the same on another line."""
    counts = [(problem.curve, problem.steps)]
    found, again = (inverted_epsilon(counts, problem.delta, most=most, left=left) for left in (0.7, 0.6))
    if abs(found - again) > 1e-8 * found + 1e-12:
        raise TooSlowError("two lines disagree")
    return found


def run_many(block, size, *, rarest, most):
    rng = generator(block, 101)
    checked = 0
    for _ in range(size):
        problem = random_problem(rng, rarest=rarest)
        try:
            exact = settled(problem, most)
        except TooSlowError:
            continue
        error = 1e-8 * exact + 1e-12
        check_inversion(problem, exact, error, check(problem, exact, error))
        checked += 1
    assert checked >= 0.6 * size


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(10), 1))
def test_many_draws_of_the_unit(block):
    run_many(block, 20, rarest=1e-5, most=400)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 20))
def test_many_draws_of_the_unit_more(block):
    run_many(block, 60, rarest=1e-6, most=1536)


def run_rare(block, size):
    rng = generator(block, 103)
    for _ in range(size):
        problem = rare_problem(rng)
        try:
            exact, error = estimated_epsilon([(problem.curve, problem.steps)], problem.delta)
        except TooSlowError:
            continue
        check(problem, exact, error)


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(5), 1))
def test_few_draws_of_the_unit(block):
    run_rare(block, 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5, 20))
def test_few_draws_of_the_unit_more(block):
    run_rare(block, 10)


def check_two(problem):
    """delta of two steps at both ends, by conditioning on one: on the right side of the delta asked for."""
    upper, lower = ends(problem)
    step = Step(problem.curve)
    assert step.delta_2(upper) <= problem.delta * (1 + 1e-9), problem
    assert lower == 0 or step.delta_2(lower) >= problem.delta * (1 - 1e-9), problem


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(6), 2))
def test_two_steps(block):
    rng = generator(block, 107)
    for _ in range(6):
        check_two(random_problem(rng, steps=2, farthest=40))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6, 26))
def test_two_steps_more(block):
    rng = generator(block, 107)
    for _ in range(10):
        check_two(random_problem(rng, steps=2))


@pytest.mark.parametrize("block", range(6))
def test_one_step(block):
    rng = generator(block, 109)
    for _ in range(8):
        problem = random_problem(rng, steps=1)
        upper, lower = ends(problem)
        step = Step(problem.curve)
        assert float(step.delta([upper])[0]) <= problem.delta * (1 + 1e-9), problem
        assert lower == 0 or float(step.delta([lower])[0]) >= problem.delta * (1 - 1e-9), problem


@pytest.mark.parametrize("block", range(4))
def test_three_steps(block):
    rng = generator(block, 113)
    for _ in range(2):
        problem = random_problem(rng, steps=3, rarest=1e-2, farthest=20)
        counts = [(problem.curve, 3)]
        fine = lattice_epsilon(counts, problem.delta, size=1 << 18)
        check(problem, fine, 2 * abs(fine - lattice_epsilon(counts, problem.delta, size=1 << 16)) + 1e-9 * fine + 1e-12)
