"""Plans from objects of other libraries: the same run as from their files."""

import enum
from dataclasses import dataclass, field
from types import SimpleNamespace

import dp_accounting
import numpy as np
import pytest

import dpcalc
from dpcalc import epsilon, plan
from dpcalc.errors import InputError

FLAT = {"sample_rate": 0.01, "delta": 1e-5, "noise_multiplier": 1.5, "steps": 500}


def same(one, other):
    assert epsilon(one).epsilon == pytest.approx(epsilon(other).epsilon, rel=1e-12)


@pytest.mark.heavy
@pytest.mark.parametrize("number", [float, np.float64])
def test_an_engine_of_opacus(number):
    accountant = SimpleNamespace(history=[(number(1.5), number(0.01), 200), (1.5, 0.01, np.int64(300))])
    for engine in (SimpleNamespace(accountant=accountant), accountant, {"history": accountant.history}):
        same(dpcalc.from_opacus(engine, poisson_sampling=True, draws=1, delta=1e-5), plan(**FLAT))


@pytest.mark.parametrize(
    ("engine", "is_poisson", "draws", "words"),
    [
        ({"history": [(1.5, 0.01, 200)]}, False, 1, "poisson_sampling: expected True"),
        (3, True, 1, "engine: expected a PrivacyEngine"),
        ({"history": []}, True, 1, "steps"),
        ({"history": [(1.5, 0.01, 200)]}, True, 0, "draws: expected the number"),
    ],
)
def test_no_engine_of_opacus(engine, is_poisson, draws, words):
    with pytest.raises(InputError, match=words):
        dpcalc.from_opacus(engine, poisson_sampling=is_poisson, draws=draws, delta=1e-5)


def test_batches_that_opacus_accumulates_are_draws_of_their_own():
    """As in test_summed_poisson: 4 batches of 128 of 50,000, of which Opacus counts one of 512: 42.41 for 46.92."""
    history = [(0.39067, 4 * 128 / 50_000, 1_953)]
    found = epsilon(dpcalc.from_opacus({"history": history}, poisson_sampling=True, draws=4, delta=1e-5)).epsilon
    assert 45.20 < found < 46.99


def test_an_event_of_dp_accounting():
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.5))
    same(dpcalc.from_dp_accounting(dp_accounting.SelfComposedDpEvent(step, 500), delta=1e-5), plan(**FLAT))
    event = dp_accounting.ComposedDpEvent([dp_accounting.SelfComposedDpEvent(step, 250)] * 2)
    same(dpcalc.from_dp_accounting(event, delta=1e-5, dataset_size=1000), plan(**FLAT))
    fixed = dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, dp_accounting.GaussianDpEvent(4.0))
    run = dpcalc.from_dp_accounting(dp_accounting.SelfComposedDpEvent(fixed, 50), delta=1e-5)
    assert run.adjacency == "replace-one"
    with pytest.raises(InputError, match="event: expected a DpEvent"):
        dpcalc.from_dp_accounting(FLAT, delta=1e-5)


class SamplingMethod(enum.Enum):
    POISSON = enum.auto()
    FIXED_BATCH_SIZE = enum.auto()


@dataclass
class DpParams:  # fields as in JAX-Privacy 2.0.0
    noise_multipliers: float
    num_samples: int
    delta: float
    batch_size: int
    batch_size_scale_schedule: dict | None = None
    is_finite_guarantee: bool = True
    batch_sizes: int = field(init=False)
    examples_per_user: int | None = None
    cycle_length: int | None = None
    sampling_method: SamplingMethod = SamplingMethod.POISSON
    truncated_batch_size: int | None = None

    def __post_init__(self):
        self.batch_sizes = self.batch_size


@dataclass
class DPKerasConfig:
    epsilon: float
    delta: float
    clipping_norm: float
    batch_size: int
    gradient_accumulation_steps: int
    train_steps: int
    train_size: int
    poisson_sampling_in_fit: bool = False
    noise_multiplier: float | None = None


@pytest.mark.heavy
def test_parameters_of_jax_privacy():
    params = DpParams(1.5, 1000, 1e-5, 10)
    same(dpcalc.from_jax_privacy(params, steps=500), plan(**FLAT))
    params.sampling_method = SamplingMethod.FIXED_BATCH_SIZE
    drawn = {"scheme": "fixed", "batch_size": 10, "dataset_size": 1000, "adjacency": "replace-one"}
    same(dpcalc.from_jax_privacy(params, steps=500), plan(**drawn, steps=500, delta=1e-5, noise_multiplier=1.5))
    keras = DPKerasConfig(3.0, 1e-5, 1.0, 10, 1, 500, 1000, noise_multiplier=1.5)
    same(dpcalc.from_jax_privacy(keras, loader="poisson"), plan(**FLAT))
    without_noise = DPKerasConfig(3.0, 1e-5, 1.0, 10, 1, 500, 1000)
    for given, loader, words in (
        (keras, {}, "how the data set of fit"),
        (without_noise, {"loader": "poisson"}, "noise_multiplier: expected a number"),
        (SamplingMethod.POISSON, {}, "params: expected DPKerasConfig or DpParams"),
    ):
        with pytest.raises(InputError, match=words):
            dpcalc.from_jax_privacy(given, **loader)
