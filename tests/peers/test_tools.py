"""What `compare` says that Opacus and TF-Privacy print, against the arithmetic of these tools, for every scheme.

The loaders, rates and step counts here are written down from their sources (Opacus 1.6.0: `privacy_engine.py`,
`data_loader.py`, `utils/uniform_sampler.py`, `accountants/`; TF-Privacy 0.9.0: `compute_dp_sgd_privacy_lib.py`).
"""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

from dpcalc.config.load import load_text
from dpcalc.planner.compare import tool_rows
from dpcalc.planner.evaluate import evaluate
from tests.config.texts import flat, nested
from tests.peers import settings
from tests.peers.settings import Flat, google_rdp, prv
from tests.thinning import thinned

RUNS = [settings.flat(*row) for row in settings.ROWS["tools"]]


def printed(run):
    return {(row.method, row.bound): row.epsilon for row in tool_rows(run.plan)}


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_the_poisson_statement(run):
    assert printed(run)["tf-privacy", "flat Poisson"] == pytest.approx(google_rdp(run), rel=1e-8)


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("epochs", [1, 3, 7])
def test_the_statement_without_sampling(run, epochs):
    """Epochs become steps as TF-Privacy counts them, and back."""
    steps = math.ceil(epochs / run.q)
    theirs = RdpAccountant().compose(dp_accounting.GaussianDpEvent(run.sigma), epochs).get_epsilon(run.delta)
    ours = printed(Flat(run.rate, run.sigma, steps, run.delta))["tf-privacy", "once per epoch"]
    assert ours == pytest.approx(theirs, rel=1e-8)


# The tools' own arithmetic


def divergence(q, sigma, order):
    """Renyi divergence of (1 - q) N(0) + q N(1) from N(0), by the trapezoid rule."""
    if q == 1:
        return order / (2 * sigma**2)
    x = np.linspace(-14 * sigma, order + 14 * sigma, 20_001)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
    log_density = order * log_ratio - x**2 / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    top = log_density.max()
    return (top + math.log(np.trapezoid(np.exp(log_density - top), x))) / (order - 1)


def by_orders(divergences, orders, delta):
    """Epsilon of Renyi divergences as both tools convert them."""
    return min(d + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a, d in zip(orders, divergences, strict=True))


OPACUS_ORDERS = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))


def opacus_rdp(q, sigma, steps, delta):
    return by_orders([steps * divergence(q, sigma, a) for a in OPACUS_ORDERS], OPACUS_ORDERS, delta)


def opacus_prv(q, sigma, steps, delta):
    """prv_accountant is what Opacus' accountant is written after, with the same errors."""
    return prv(Flat(str(q), sigma, steps, delta))[1]


def statement(examples, batch_size, epochs, sigma, delta, *, microbatching):
    """(epsilon once per epoch, epsilon by Poisson sampling) of compute_dp_sgd_privacy_statement."""
    sigma = sigma / 2 if microbatching else sigma
    q = batch_size / examples
    once = [math.ceil(epochs) * a / (2 * sigma**2) for a in DEFAULT_RDP_ORDERS]
    sampled = [math.ceil(epochs / q) * divergence(q, sigma, a) for a in DEFAULT_RDP_ORDERS]
    return by_orders(once, DEFAULT_RDP_ORDERS, delta), by_orders(sampled, DEFAULT_RDP_ORDERS, delta)


N, SIGMA, DELTA = 6_000, 1.3, 1e-5
LOADERS = settings.ROWS["loaders"]


def loaded(sampling, training, **more):
    sections = {
        "data": f"{{examples: {N}}}",
        "sampling": sampling,
        "training": training,
        "mechanism": f"{{noise_multiplier: {SIGMA}, max_grad_norm: 1.0}}",
        "privacy": f"{{delta: {DELTA}, adjacency: add-remove}}",
    }
    return load_text(flat({**sections, **more}), path="f").plan


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(LOADERS, 5))
def test_what_opacus_prints_for_a_loader(name):
    sampling, training, length, steps, *_ = LOADERS[name]
    plan = loaded(sampling, training)
    assert plan.steps == steps
    rows = {row.method: row for row in tool_rows(plan) if row.method.startswith("opacus")}
    assert rows["opacus-rdp"].epsilon == pytest.approx(opacus_rdp(1 / length, SIGMA, steps, DELTA), rel=1e-6)
    assert rows["opacus-prv"].epsilon == pytest.approx(opacus_prv(f"1/{length}", SIGMA, steps, DELTA), abs=2e-4)
    assert f"asked with the rate {'1' if length == 1 else f'1/{length}'}" in rows["opacus-prv"].note


@pytest.mark.parametrize("name", thinned([name for name, case in LOADERS.items() if case[-1] is not None], 4))
def test_what_tf_privacy_prints_for_a_loader(name):
    sampling, training, *_, batch_size, epochs = LOADERS[name]
    rows = {row.bound: row.epsilon for row in tool_rows(loaded(sampling, training)) if row.method == "tf-privacy"}
    plain = statement(N, batch_size, epochs, SIGMA, DELTA, microbatching=False)
    halved = statement(N, batch_size, epochs, SIGMA, DELTA, microbatching=True)
    expected = dict(zip(("once per epoch", "flat Poisson"), plain, strict=True))
    expected |= dict(zip(("once per epoch, microbatches", "flat Poisson, microbatches"), halved, strict=True))
    assert rows == {bound: pytest.approx(epsilon, rel=1e-6) for bound, epsilon in expected.items()}


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(["last batch dropped", "shuffle", "fixed"], 1))
def test_the_note_names_what_opacus_prints(name):
    sampling, training, length, steps, *_ = LOADERS[name]
    (note,) = [each for each in evaluate(loaded(sampling, training)).notes if "Opacus would print" in each.text]
    assert note.epsilons[0] == pytest.approx(opacus_prv(f"1/{length}", SIGMA, steps, DELTA), abs=2e-4)


def test_a_long_run_over_a_shuffled_loader():
    sampling, privacy = "{scheme: shuffle, size: 250}", "{adjacency: add-remove, delta: 1e-5}"
    sections = {"sampling": sampling, "training": "{epochs: 60}", "privacy": privacy}
    plan = load_text(flat(sections), path="f").plan
    rows = {(row.method, row.bound): round(row.epsilon, 2) for row in tool_rows(plan)}
    assert rows == {
        ("opacus-prv", "flat Poisson"): 2.36,
        ("opacus-rdp", "flat Poisson"): 2.56,
        ("tf-privacy", "flat Poisson"): 2.56,
        ("tf-privacy", "once per epoch"): 56.95,
        ("tf-privacy", "flat Poisson, microbatches"): 16.18,
        ("tf-privacy", "once per epoch, microbatches"): 164.96,
    }


def test_two_phases_are_one_history_of_opacus_and_no_statement():
    phases = (
        "[{name: a, sampling: {scheme: shuffle, size: 250}, training: {epochs: 3}},"
        " {name: b, sampling: {scheme: shuffle, size: 600}, training: {epochs: 2},"
        " mechanism: {noise_multiplier: 2.0, max_grad_norm: 1.0}}]"
    )
    plan = loaded(None, None, phases=phases)
    rows = {(row.method, row.bound): row for row in tool_rows(plan)}
    alphas = OPACUS_ORDERS
    theirs = [72 * divergence(1 / 24, SIGMA, a) + 20 * divergence(1 / 10, 2.0, a) for a in alphas]
    assert rows["opacus-rdp", "flat Poisson"].epsilon == pytest.approx(by_orders(theirs, alphas, DELTA), rel=1e-6)
    assert all(row.epsilon is None for (method, _), row in rows.items() if method == "tf-privacy")


def test_no_loader_takes_part_three_times_in_one_phase():
    rows = tool_rows(loaded("{scheme: random-allocation, times: 3}", "{steps: 72}"))
    assert {row.epsilon for row in rows} == {None}
    assert any("no pass of a loader" in row.note for row in rows if row.method == "opacus-prv")


@pytest.mark.parametrize(
    ("sampling", "clip", "unit", "rate"),
    [
        ("{task: {scheme: fixed, size: 4}, example: {scheme: fixed, size: 5}}", "task", "example", "1/200"),
        ("{task: {scheme: all}, example: {scheme: poisson, rate: 1/50}}", "example", "task", "1/50"),  # of examples
        ("{task: {scheme: all}, example: {scheme: shuffle, size: 3}}", "example", "example", "1/7"),
        ("{task: {scheme: shuffle, size: 30}, example: {scheme: all}}", "task", "task", "1/7"),
    ],
)
def test_nested_draws_are_asked_with_the_rate_of_the_loader(sampling, clip, unit, rate):
    sections = {
        "sampling": sampling,
        "mechanism": f"{{noise_multiplier: 6, max_grad_norm: 1.0, clip: {clip}}}",
        "privacy": f"{{unit: {unit}, adjacency: add-remove, delta: 1e-6}}",
    }
    plan = load_text(nested(sections), path="f").plan
    (row,) = [row for row in tool_rows(plan) if row.method == "opacus-rdp"]
    assert row.note.endswith(f"asked with the rate {rate}")
    top, bottom = map(int, rate.split("/"))
    assert row.epsilon == pytest.approx(opacus_rdp(top / bottom, 6, 100, 1e-6), rel=1e-6)


def test_clipped_microbatches_are_what_the_statement_halves_the_noise_for():
    mechanism = f"{{noise_multiplier: {SIGMA}, max_grad_norm: 1.0, clip: batch}}"
    plan = loaded("{scheme: poisson, rate: 1/24}", "{epochs: 7}", mechanism=mechanism)
    valid = {row.bound for row in tool_rows(plan) if row.method == "tf-privacy" and row.valid}
    assert valid == {"flat Poisson, microbatches"}


@pytest.mark.heavy
def test_once_per_epoch_is_what_a_shuffle_costs_under_zero_out():
    privacy = f"{{delta: {DELTA}, adjacency: zero-out}}"
    plan = loaded("{scheme: shuffle, size: 256}", "{epochs: 7}", privacy=privacy)
    (row,) = [row for row in tool_rows(plan) if row.bound == "once per epoch"]
    assert row.valid
    assert evaluate(plan).guarantee.epsilon < row.epsilon < 1.1 * evaluate(plan).guarantee.epsilon
