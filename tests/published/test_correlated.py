"""Published numbers of runs with correlated noise, also those of the sample configs."""

from pathlib import Path

import pytest

from dpcalc.accountants import accountant_of
from dpcalc.config.load import load, load_text
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import evaluate, guarantee

SAMPLES = Path(__file__).parents[2] / "sample_configs"
TREE = """version: 1
data: {examples: 342_477}
sampling: {scheme: any-order}
mechanism: {type: matrix-factorization, strategy: tree, noise_multiplier: NOISE, max_participations: 1}
training: {steps: STEPS}
privacy: {adjacency: zero-out, delta: 1e-6}
"""


def sample(name):
    return load(str(SAMPLES / name)).plan


def test_gboard_spanish():
    """google-research/federated, dp_ftrl, blogpost_supplemental_privacy_accounting: 0.81-zCDP, (8.90, 1e-10)-DP."""
    plan = sample("gboard_spanish.yaml")
    (phase,) = plan.phases
    ratio = phase.mechanism.strategy.sensitivity(phase.steps, phase.mechanism.limits).ratio
    assert (ratio / phase.noise_multiplier) ** 2 / 2 == pytest.approx(0.81, abs=0.005)
    (counts, _) = composed(plan).steps.values()
    assert accountant_of("rdp")(counts, delta=plan.delta).epsilon == pytest.approx(8.90, abs=0.005)
    result = evaluate(plan).guarantee
    assert result.epsilon < 8.90
    assert result.tight


@pytest.mark.parametrize(("noise", "printed"), [(1.13, 19.74), (8.83, 2.04)])
def test_stack_overflow(noise, printed):
    """Kairouz et al. 2021 (2103.00039) as TensorFlow Privacy's tree_aggregation_accountant_test asks for: not above."""
    plan = load_text(TREE.replace("NOISE", str(noise)).replace("STEPS", "1600"), path="f").plan
    assert guarantee(plan).epsilon < printed
    if noise == 8.83:
        assert guarantee(sample("stack_overflow_ftrl.yaml")).epsilon == guarantee(plan).epsilon


def test_errors_of_the_prefix_sums_are_told_in_detail(real):
    """By the definition: a prefix sum of t rounds adds a node for every binary digit 1 of t."""
    nodes = [t.bit_count() for t in range(1, 1601)]
    mean, largest = 8.83 * (sum(nodes) / 1600) ** 0.5, 8.83 * max(nodes) ** 0.5
    assert 20.06 < mean <= 20.07
    assert 27.92 < largest <= 27.93
    told = real("epsilon", str(SAMPLES / "stack_overflow_ftrl.yaml"), "-v").out
    assert "20.07 clip norms (root mean square over the steps), at most 27.93" in told
