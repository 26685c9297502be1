"""Runs on disjoint parts of the data beside exact laws: every unit pays for its own part and for all data."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.config.load import load_text
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, guarantee
from tests.oracles.exact_gaussian import exact_epsilon

LEDGER = """\
version: 1
data: {{examples: 100}}
mechanism: {{noise_multiplier: {noise}}}
partition: {{rule: sha256 of the example, parts: [{{name: a}}, {{name: b}}, {{name: c}}]}}
phases:
{phases}
privacy: {{adjacency: {adjacency}, delta: 1e-5}}
"""
PHASE = "  - {{{part}sampling: {{scheme: {scheme}}}, training: {{steps: {steps}}}}}"


def ledger(*phases, noise=2.0, adjacency="add-remove"):
    """The plan of phases (part or "", scheme, steps)."""
    lines = [
        PHASE.format(part=f"part: {part}, " if part else "", scheme=scheme, steps=steps)
        for part, scheme, steps in phases
    ]
    text = LEDGER.format(noise=noise, phases="\n".join(lines), adjacency=adjacency)
    return load_text(text, path="ledger.yaml").plan


def epsilon_of(*phases, **options):
    return guarantee(ledger(*phases, **options)).epsilon


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out"])
def test_the_costliest_part_decides_with_all_data(adjacency):
    """Gaussians without sampling compose exactly: a unit of part a takes part in 3 + 4 steps."""
    phases = (("", "all", 3), ("a", "all", 4), ("b", "all", 2), ("c", "all", 4))
    expected = float(exact_epsilon(7, 2.0, 1e-5))
    assert epsilon_of(*phases, adjacency=adjacency) == pytest.approx(expected, rel=1e-3)
    assert epsilon_of(*phases, adjacency=adjacency) >= expected
    assert epsilon_of(("a", "all", 4), adjacency=adjacency) == pytest.approx(
        float(exact_epsilon(4, 2.0, 1e-5)), rel=1e-3
    )


def test_parts_cost_what_their_phases_cost_as_one_run():
    phases = (("", "poisson, rate: 0.1", 30), ("a", "poisson, rate: 0.3", 9), ("b", "balls-in-bins, bins: 4", 8))
    alone = [epsilon_of(phases[0], ("", *phases[at][1:])) for at in (1, 2)]
    assert epsilon_of(*phases) == pytest.approx(max(alone), rel=1e-9)
    assert epsilon_of(*phases) < epsilon_of(*(("", *phase[1:]) for phase in phases))


# Exact laws of one step on each part: mixtures of Gaussians in the plane, on a grid.


GRID = np.arange(-16.0, 18.0, 0.002)


def density(weights):
    """The density on the grid of a mixture {center: weight} with standard deviation 2, times the distance of points."""
    return sum(weight * norm.pdf(GRID, center, 2.0) for center, weight in weights.items()) * 0.002


def hockey_stick(first, second, epsilon):
    """The divergence of two laws, each given as the densities of two independent coordinates."""
    (p, other_p), (q, other_q) = first, second
    order = np.argsort(-p / q)
    ratios, above_p, above_q = (p / q)[order], np.cumsum(p[order]), np.cumsum(q[order])
    # Given the second coordinate the factor of q is known; the first one counts where its ratio is above that.
    factors = math.exp(epsilon) * other_q / other_p
    number = np.searchsorted(-ratios, -factors)
    inner = np.where(number > 0, above_p[number - 1] - factors * above_q[number - 1], 0.0)
    return float(np.sum(other_p * inner))


def sums(units, rate):
    """{sum: probability} of units, each adding its vector where it is drawn."""
    law = {}
    for drawn in product((0, 1), repeat=len(units)):
        total = sum(unit for unit, is_in in zip(units, drawn, strict=True) if is_in)
        chance = math.prod(rate if is_in else 1 - rate for is_in in drawn)
        law[total] = law.get(total, 0.0) + chance
    return law


def law_of(parts, rates):
    """Densities of one step on each of two parts, each a list of the vectors of its units."""
    return tuple(density(sums(units, rate)) for units, rate in zip(parts, rates, strict=True))


RATES = (0.3, 0.5)
ONE_STEP_EACH = tuple((part, f"poisson, rate: {rate}", 1) for part, rate in zip("ab", RATES, strict=True))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
def test_no_removed_unit_exceeds_its_part(epsilon):
    plan = ledger(*ONE_STEP_EACH)
    bound = delta_of(plan, epsilon=epsilon).delta
    worst = 0.0
    for others in ([], [1], [1, -1], [-1, -1]):
        for at in (0, 1):
            parts = [list(others), list(others)]
            without = law_of(parts, RATES)
            for vector in (1, -1, 0.5):
                parts[at] = [*others, vector]
                with_unit = law_of(parts, RATES)
                worst = max(worst, hockey_stick(with_unit, without, epsilon), hockey_stick(without, with_unit, epsilon))
    assert worst <= bound * (1 + 1e-6)
    assert worst >= 0.99 * bound


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
def test_a_unit_that_moves_between_parts(epsilon):
    """Of every pair of vectors: x leaves part a and y comes to part b, or y stays in the part of x."""
    plan = ledger(*ONE_STEP_EACH, adjacency="replace-one")
    bound = delta_of(plan, epsilon=epsilon).delta
    moved = 0.0
    for x, y in product((1, -1), repeat=2):
        pair = law_of([[x], []], RATES), law_of([[], [y]], RATES)
        moved = max(moved, hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon))
        stays = law_of([[], [x]], RATES), law_of([[], [y]], RATES)
        assert hockey_stick(*stays, epsilon) <= bound * (1 + 1e-6)
    assert moved <= bound * (1 + 1e-6)
    # the move alone is attained
    steps = {name: counts for name, counts in composed(plan).steps.items() if "replaced by" in name}
    assert len(steps) == 2 * 3 * 2
    names = [
        name for name in steps if "a unit of a replaced by one of b" in name or "of b replaced by one of a" in name
    ]
    exact = max(delta_bounds(steps[name], epsilon=epsilon, sides=(UPPER,))[0] for name in names)
    assert moved <= exact * (1 + 1e-6)
    assert moved >= 0.99 * exact


def test_a_moved_unit_is_replaced_where_all_data_are_drawn():
    """Without sampling: shift 2 in the steps on all data, 1 in those on each of the two parts."""
    plan = ledger(("", "all", 2), ("a", "all", 3), ("b", "all", 1), adjacency="replace-one")
    steps = composed(plan).steps
    for words, squares in {
        "D||D', part a": 4 * 2 + 4 * 3,
        "D'||D, part b": 4 * 2 + 4 * 1,
        "D||D', a unit of a replaced by one of b": 4 * 2 + 3 + 1,
        "D||D', a unit of b replaced by one of no part": 4 * 2 + 1,
        "D'||D, a unit of no part replaced by one of a": 4 * 2 + 3,
    }.items():
        expected = float(exact_epsilon(squares, 2.0, 1e-5))
        assert epsilon_bounds(steps[words], delta=1e-5, sides=(UPPER,))[0] == pytest.approx(expected, rel=1e-3)
    assert guarantee(plan).epsilon == pytest.approx(float(exact_epsilon(20, 2.0, 1e-5)), rel=1e-3)


def test_a_rule_that_looks_at_other_units_costs_both_parts():
    """Sorted data cut in the middle: removing the first unit moves another one over the cut."""
    plan = ledger(("a", "all", 1), ("b", "all", 1))
    epsilon = 0.3
    bound = delta_of(plan, epsilon=epsilon).delta
    values = [1, 1, -1, -1]

    def halves(units):
        cut = len(units) // 2
        return [units[:cut], units[cut:]]

    def exact(first, second):
        return hockey_stick(law_of(first, (1.0, 1.0)), law_of(second, (1.0, 1.0)), epsilon)

    assert exact(halves(values), halves(values[:-1])) > 1.2 * bound
    # by a rule of its own the unit is missing in its part alone
    assert exact([[1, 1], [-1, -1]], [[1, 1], [-1]]) <= bound * (1 + 1e-6)


def test_records_that_are_replaced_stay_in_the_part_of_their_user():
    text = """\
version: 1
data: {levels: [{name: user, count: 50}, {name: record, count: 4}]}
mechanism: {noise_multiplier: 6}
partition: {rule: sha256 of the user, parts: [{name: a}, {name: b}]}
sampling: {user: {scheme: poisson, rate: 0.2}, record: {scheme: fixed, size: 2}}
phases: [{part: a, training: {steps: 20}}, {part: b, training: {steps: 30}}]
privacy: {unit: record, adjacency: replace-one, delta: 1e-5}
"""
    plan = load_text(text, path="ledger.yaml").plan
    assert all("part" in name and "replaced by" not in name for name in composed(plan).steps)
    alone = text.replace("part: a, training: {steps: 20}", "training: {steps: 0}").replace("part: b, ", "")
    expected = guarantee(load_text(alone.replace("{training: {steps: 0}}, ", ""), path="").plan).epsilon
    assert guarantee(plan).epsilon == pytest.approx(expected, rel=1e-9)
