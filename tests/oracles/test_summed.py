"""Several Poisson draws that one step adds up (Theorem 4.10), against all outcomes and own convolutions."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import dpcalc
from dpcalc.config.load import load_text
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.thinning import thinned

EPSILONS = (0.0, 0.1, 0.25, 0.5, 0.8, 1.2, 1.8, 2.5, 3.5, 5.0)
RUN = """
version: 1
data: {{examples: 1000}}
sampling: {{scheme: poisson, rate: {rate}, draws: {draws}}}
mechanism: {{noise_multiplier: {sigma}}}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: 1e-5}}
"""


def run(**changes):
    usual = {"rate": "1/10", "draws": 3, "sigma": 1.5, "steps": 1, "adjacency": "add-remove"}
    return load_text(RUN.format(**usual | changes), path="run.yaml").plan


def binomial(draws, rate):
    return [math.comb(draws, j) * rate**j * (1 - rate) ** (draws - j) for j in range(draws + 1)]


THIRD, RARE = Fraction(1, 3), Fraction(1, 100)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("adjacency", "draws", "rate"),
    [
        ("add-remove", 2, THIRD),
        ("replace-one", 8, THIRD),
        pytest.param("add-remove", 8, RARE, marks=pytest.mark.slow),
        pytest.param("zero-out", 3, THIRD, marks=pytest.mark.slow),
        pytest.param("replace-one", 2, RARE, marks=pytest.mark.slow),
        pytest.param("replace-one", 3, THIRD, marks=pytest.mark.slow),
    ],
)
def test_whole_profile_of_one_step(adjacency, draws, rate):
    law, sigma = binomial(draws, float(rate)), 1.5
    own = Mixture.on_line(law, range(draws + 1))
    other = Mixture.on_line(law, [-j for j in range(draws + 1)])
    if adjacency != "replace-one":
        other = Mixture.on_line([1.0], [0.0])
    exact = np.maximum(*(hockey_stick(*pair, sigma, EPSILONS) for pair in ((own, other), (other, own))))
    plan = run(draws=draws, rate=rate, adjacency=adjacency, sigma=sigma)
    for epsilon, truth in zip(EPSILONS, exact, strict=True):
        found = dpcalc.delta(plan, epsilon=epsilon)
        assert found.delta_lower <= truth * (1 + 1e-9) + 1e-15
        assert truth * (1 - 1e-9) - 1e-15 <= found.delta <= 1.01 * truth + 1e-12, epsilon


@pytest.mark.slow
def test_no_pair_of_data_sets_costs_more():
    """Each copy of the unit and of a second example has a vector of its own, of any length and sign."""
    rng, draws, rate, sigma = np.random.default_rng(3), 3, 0.3, 1.2
    masks = np.array([*product((0, 1), repeat=draws)])
    weights = (rate ** masks.sum(1)) * (1 - rate) ** (draws - masks.sum(1))
    plans = {name: run(draws=draws, rate=rate, adjacency=name, sigma=sigma) for name in ("zero-out", "replace-one")}
    bounds = {name: np.array([dpcalc.delta(plan, epsilon=e).delta for e in EPSILONS]) for name, plan in plans.items()}
    for _ in range(40):
        mine, new, others = (rng.choice([-1, -0.5, 0, 0.5, 1], draws) for _ in range(3))
        sides = {"zero-out": 0 * mine, "replace-one": new}
        for name, theirs in sides.items():
            p, q = (
                Mixture.on_line(
                    np.outer(weights, weights).ravel(), np.add.outer(masks @ vectors, masks @ others).ravel()
                )
                for vectors in (mine, theirs)
            )
            for pair in ((p, q), (q, p)):
                assert np.all(hockey_stick(*pair, sigma, EPSILONS) <= bounds[name] + 1e-12)


def convolved_delta(law, sigma, steps, epsilon, *, swapped):
    """delta of `steps` steps of sum_j law[j] N(j) against N(0), losses rounded up (an upper end) and down."""
    width, reach = 2e-3, 60.0
    x = np.linspace(-14 * sigma, len(law) + 14 * sigma, 400_001)
    p = sum(w * np.exp(-((x - j) ** 2) / (2 * sigma**2)) for j, w in enumerate(law))
    q = np.exp(-(x**2) / (2 * sigma**2))
    p, q = (side / side.sum() for side in ((q, p) if swapped else (p, q)))
    found = []
    for rounded in (np.ceil, np.floor):
        cells = np.clip(rounded(np.log(p / q) / width), -reach / width, reach / width).astype(int)
        mass = np.bincount(cells + int(reach / width), weights=p, minlength=int(2 * reach / width) + 1)
        size = 1 << (mass.size * steps).bit_length()
        total = np.fft.irfft(np.fft.rfft(mass, size) ** steps, size)[: (mass.size - 1) * steps + 1]
        losses = (np.arange(total.size) - steps * int(reach / width)) * width
        above = losses > epsilon
        found.append(float((total[above] * -np.expm1(epsilon - losses[above])).sum()))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(("draws", "rate", "sigma", "steps"), [(4, 0.02, 0.8, 30), (2, 0.2, 2.0, 20)])
def test_composed_steps_against_a_convolution(draws, rate, sigma, steps):
    plan, law = run(draws=draws, rate=rate, sigma=sigma, steps=steps), binomial(draws, rate)
    for epsilon in (0.2, 1.5, 3.0):
        ends = [convolved_delta(law, sigma, steps, epsilon, swapped=swapped) for swapped in (False, True)]
        high, low = (max(column) for column in zip(*ends, strict=True))
        found = dpcalc.delta(plan, epsilon=epsilon)
        assert low * (1 - 1e-6) - 1e-11 <= found.delta
        assert found.delta_lower <= high * (1 + 1e-6) + 1e-11
        assert found.delta <= 1.02 * high + 1e-11


@pytest.mark.heavy
def test_accumulated_batches_of_opacus():
    """4 batches of 128 of 50,000 in a step: dp_accounting 0.6.0 says 45.20 (optimistic) to 46.99 (pessimistic)."""
    found = dpcalc.epsilon(run(rate="128/50000", draws=4, sigma=0.39067, steps=1955))
    assert 45.20 <= found.epsilon <= 47.0
    assert found.epsilon_lower >= 45.2
    assert dpcalc.epsilon(run(rate="512/50000", draws=1, sigma=0.39067, steps=1955)).epsilon < 42.5


COPIES = """
version: 1
data: {{levels: [{above}{{name: example, count: {count}}}{copies}]}}
sampling: {{{draws}}}
mechanism: {{noise_multiplier: 2, clip: {clip}}}
training: {{steps: 20}}
privacy: {{unit: {unit}, adjacency: {adjacency}, delta: 1e-5, group_size: {group}}}
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("above", "unit", "group", "adjacency"),
    thinned(
        [
            (*units, adjacency)
            for units in [
                ("", "example", 1),
                ("poisson, rate: .2", "user", 1),
                ("fixed, size: 3", "example", 1),
                ("", "example", 3),
            ]
            for adjacency in ("add-remove", "zero-out", "replace-one")
        ],
        5,
    ),
)
def test_same_as_copies_that_are_written_out(above, unit, group, adjacency):
    nested = {"above": "{name: user, count: 9}, " if above else "", "count": 5 if above else 40}
    nested |= {"unit": unit, "group": group, "adjacency": adjacency}
    user = f"user: {{scheme: {above}}}, " if above else ""
    draw = "{scheme: poisson, rate: .1, draws: 3}"
    summed = COPIES.format(**nested, copies="", clip="example", draws=f"{user}example: {draw}")
    draws = f"{user}example: {{scheme: all}}, copy: {{scheme: poisson, rate: .1}}"
    written = COPIES.format(**nested, copies=", {name: copy, count: 3}", clip="copy", draws=draws)
    ours, theirs = (dpcalc.epsilon(load_text(text, path="run.yaml").plan) for text in (summed, written))
    assert (ours.epsilon, ours.epsilon_lower) == (theirs.epsilon, theirs.epsilon_lower)
