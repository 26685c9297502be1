"""The table "From your training code to a config" says what the libraries draw, by their own arithmetic."""

import re
from fractions import Fraction
from math import ceil
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from scipy.stats import binom

import dpcalc
from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from dpcalc.imports.read import imported, read_run
from dpcalc.imports.run import Terms
from tests.config.texts import corpus, flat, varied
from tests.thinning import thinned

PAGE = (Path(__file__).parents[2] / "docs/configs.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+) \|$", PAGE[PAGE.index("## From your training code") :], flags=re.MULTILINE)


def row(words):
    """The right column of the only row whose left column holds some words."""
    (told,) = (right for left, right in ROWS if words in left)
    return told


def stated(words):
    """What the right column of a row states, by section."""
    return dict(re.findall(r"`(\w+): (\{.*?\})`", row(words)))


def batches(examples, batch_size, *, drop_last):
    """The length of a PyTorch loader, counted batch by batch."""
    sizes = [min(batch_size, examples - start) for start in range(0, examples, batch_size)]
    return len([size for size in sizes if size == batch_size or not drop_last])


def opacus(examples, batch_size, epochs, *, drop_last):
    """(rate, steps) as Opacus 1.6.0 computes them: `privacy_engine.py` and `accountants/utils.py`."""
    length = batches(examples, batch_size, drop_last=drop_last)
    return Fraction(1, length), epochs * length


def drawn(sections):
    """(rate, steps) of a run over 60,000 examples."""
    (phase,) = load_text(flat(sections), path="f").plan.phases
    return phase.hierarchy.level(1).rate, phase.steps


@pytest.mark.parametrize(
    ("words", "drop_last"),
    [("`DataLoader(batch_size=256)`", False), ("`DataLoader(batch_size=256, drop_last=True)`", True)],
)
def test_a_row_of_opacus_draws_what_opacus_does(words, drop_last):
    sections = stated(words)
    assert {"sampling", "training"} <= sections.keys()
    assert drawn(sections) == opacus(60_000, 256, 60, drop_last=drop_last)


def test_the_noise_that_opacus_looks_for_is_that_of_the_same_draws():
    """The library's noise belongs to the draws of the row above it: steps = int(epochs / sample_rate) there."""
    mechanism = re.search(r"`mechanism: (.*?)`", row("make_private_with_epsilon"))[1]
    sections = {"mechanism": mechanism, "training": "{epochs: 60}", "sampling": "{scheme: poisson, rate: 1/235}"}
    (phase,) = load_text(flat(sections), path="f").plan.phases
    assert phase.steps == int(60 / (1 / 235))
    assert 0.7 < phase.noise_multiplier < 1


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    ("examples", "batch_size"), [(1000, 300), (50_000, 512), (60_000, 256), (60_000, 250), (7, 7), (101, 2), (49, 1)]
)
@pytest.mark.parametrize("epochs", [1, 7, 50])
def test_the_rule_of_the_rows_for_any_loader(examples, batch_size, epochs, drop_last):
    length = batches(examples, batch_size, drop_last=drop_last)
    sections = {
        "data": f"{{examples: {examples}}}",
        "sampling": f"{{scheme: poisson, rate: 1/{length}}}",
        "training": f"{{epochs: {epochs}}}",
    }
    rate, steps = drawn(sections)
    assert (rate, steps) == opacus(examples, batch_size, epochs, drop_last=drop_last)
    assert steps >= epochs * int(1 / (1 / length))  # utils/uniform_sampler.py: a float quotient may lose a step


def test_tensorflow_privacy():
    rate, steps = Fraction(256, 60_000), ceil(60 * Fraction(60_000, 256))
    assert drawn({"sampling": "{scheme: poisson}", "training": "{batch_size: 256, epochs: 60}"}) == (rate, steps)
    told = row("max_examples_per_user=k")
    assert load_text(flat({"privacy": "{delta: 1e-6, group_size: 3}"}), path="f").plan.group_size == 3
    assert "`privacy: {group_size: k}`" in told


# Each way to say one run gives one epsilon: by keys, in Python, by `import`, and by an accountant that shares no code.


def poisson(q, sigma, steps, delta=1e-5):
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return PLDAccountant().compose(event, steps).get_epsilon(delta)


def gaussian(sigma, delta=1e-5):
    return PLDAccountant().compose(dp_accounting.GaussianDpEvent(sigma)).get_epsilon(delta)


def mixture(chances, distances, sigma, steps, delta=1e-5, grid=1e-3):
    """Epsilon of N(0) against N(distance) with some chances, in both directions."""
    loss = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        sigma, list(distances), list(chances), value_discretization_interval=grid
    )
    return loss.self_compose(steps).get_epsilon_for_delta(delta)


def copies(k, q):
    return binom.pmf(np.arange(k + 1), k, q)


RUNS = corpus("training_code")
INDEPENDENT = {
    "`DataLoader(batch_size=256)`": lambda: poisson(1 / 235, 1.1, 14_100),
    "`DataLoader(batch_size=256, drop_last=True)`": lambda: poisson(1 / 234, 1.1, 14_040),
    "any shuffled loader": lambda: gaussian(1.1 / 60**0.5),
    # one draw is a batch of a fixed size; oracles have the others
    "RandomSampler(replacement=True)": lambda: poisson(1 / 100, 0.55, 1000),
    "compute_dp_sgd_privacy(n,": lambda: poisson(256 / 60_000, 1.1, 14_063),
    "num_microbatches < batch_size": lambda: poisson(1 / 240, 0.55, 3_600),
    "max_examples_per_user=k": lambda: mixture(copies(3, 256 / 60_000), range(4), 1.1, 1_407),
    "`dpsgd_event(": lambda: poisson(0.01, 1.1, 1000),
    # a stand-in moves the sum by two clip norms
    "`fixed_dpsgd_event`": lambda: poisson(0.01, 0.55, 1000),
    "`clients_per_round`": lambda: poisson(100 / 3400, 0.55, 300),
    "batches of a shuffled loader": lambda: gaussian(1.1 / 10**0.5),
    "batches of a Poisson loader": lambda: mixture(copies(4, 128 / 50_000), range(5), 0.39066894531, 1960, grid=1e-2),
    # a clinic's draw is fixed: a stand-in moves the sum by two clip norms
    "MAML, meta-batch": lambda: poisson(32 / 1200, 0.55, 300),
    # each of 4 tasks holds the class with 5/64, and is another task without it
    "N-way k-shot tasks": lambda: mixture(copies(4, 5 / 64), range(0, 10, 2), 4, 300, grid=4e-3),
    # five steps under one draw are one at sigma / sqrt(5)
    "for several steps, then new ones": lambda: poisson(0.02, 4 / 5**0.5, 200),
    "`tree_aggregation(": lambda: gaussian(10 / tree_sensitivity(64, 32, 2)),
    # a unit's group comes up in every fourth step
    "cyclic Poisson sampling": lambda: poisson(0.05, 1.1, 250),
    "picks one round of a day": lambda: two_bins(1.1),
    # 234 steps hold 59,904 of 60,000: a pass takes a unit in with their share
    "loader with `drop_last=True`": lambda: poisson(59_904 / 60_000, 0.55, 10),
    "cut into parts that fit into memory": lambda: poisson(512 / 60_000, 1.1, 1000),
    "data-parallel ranks": lambda: poisson(64 / 15_000, 1.1, 1000),
    # of so few examples that every batch has room; oracles have the others
    "`truncated_batch_size=300`": lambda: poisson(0.1, 1.1, 100),
}


def tree_sensitivity(steps, separation, participations):
    """Largest norm of the sum of columns of the complete binary tree of sums that one unit can take part in."""
    rows = [[first <= step < first + size for step in range(steps)]
            for level in range(steps.bit_length())
            for size in (2**level,)
            for first in range(0, steps, size)]  # fmt: skip
    matrix = np.array(rows, dtype=float)
    assert participations == 2
    pairs = [(a, b) for a in range(steps) for b in range(a + separation, steps)]
    return max(np.linalg.norm(matrix[:, a] + matrix[:, b]) for a, b in pairs)


def two_bins(sigma, delta=1e-5):
    """Epsilon of one pass of two bins by quadrature: the likelihood ratio is the mean of two of Gaussian steps."""
    z, step = np.linspace(-8, 8, 801, retstep=True)
    weight = np.exp(-0.5 * z**2) * step
    ratio = np.exp(z / sigma - 0.5 / sigma**2)
    mean = (ratio[:, None] + ratio[None, :]) / 2
    chance = np.multiply.outer(weight, weight) / (2 * np.pi)

    def slack(epsilon):
        return max(
            (chance * np.maximum(mean - np.exp(epsilon), 0)).sum(),
            (chance * np.maximum(1 - np.exp(epsilon) * mean, 0)).sum(),
        )

    low, high = 0.0, 50.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if slack(middle) > delta else (low, middle)
    return high


@pytest.mark.heavy
@pytest.mark.parametrize("words", thinned(INDEPENDENT, 8))
def test_every_way_to_say_a_row_costs_the_same(words, tmp_path):
    assert row(words)
    run = RUNS[words]
    arguments, call = run.get("python"), run.get("import")
    base = {
        "version": "1",
        "data": "{examples: 60_000}",
        "mechanism": "{noise_multiplier: 1.1, max_grad_norm: 1.0}",
        "privacy": "{adjacency: add-remove, delta: 1e-5}",
    }
    by_keys = dpcalc.epsilon(load_text(varied(base, run["config"]), path="f").plan).epsilon
    assert by_keys == pytest.approx(INDEPENDENT[words](), rel=2e-3)
    if arguments is not None:
        in_python = dpcalc.plan(**{"noise_multiplier": 1.1, "delta": 1e-5, **arguments})
        assert dpcalc.epsilon(in_python).epsilon == by_keys
    if call is not None:
        text, terms = call
        path = tmp_path / "train.py"
        path.write_text(f"engine.{text}\n", encoding="utf-8")
        terms = Terms(**{"delta": "1e-5", **{name: Fraction(value) for name, value in terms.items()}})
        read = imported(read_run(str(path), terms), terms, "train.py")
        assert dpcalc.epsilon(read.loaded.plan).epsilon == pytest.approx(by_keys, rel=1e-9)


@pytest.mark.heavy
def test_accumulated_poisson_batches_cost_more_than_one_draw_of_k_times_the_rate():
    assert "{scheme: poisson, rate: 128/50000, draws: 4}" in row("batches of a Poisson loader")
    sections = RUNS["batches of a Poisson loader"]["config"]
    epsilon = dpcalc.epsilon(load_text(varied({"version": "1"}, sections), path="f").plan).epsilon
    assert 45.2 < epsilon < 47.0
    assert poisson(512 / 50_000, 0.39066894531, 1960) < 42.5


def test_a_shuffled_loader_of_opacus_is_not_imported_as_a_poisson_run(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("engine.make_private(noise_multiplier=1.1, poisson_sampling=False)\n", encoding="utf-8")
    with pytest.raises(InputError, match="scheme: shuffle"):
        read_run(str(path), Terms(sample_rate=Fraction(1, 235), epochs=Fraction(60)))
