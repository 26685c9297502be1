"""Own numerics beside the SciPy functions that do the same; docs/architecture.md says why they are not used."""

import numpy as np
import pytest
from scipy import fft, signal, special

from dpcalc.numerics.convolution import convolve, cyclic_powers, fast_fft_size
from dpcalc.numerics.special import log_cumsum_exp, log_sum_exp


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 300), (1000, 1000), (4097, 33)])
def test_convolutions_agree_within_the_bound_on_their_round_off(n, m):
    rng = np.random.default_rng(n + m)
    a, b = (values / values.sum() for values in (rng.random(n), rng.random(m)))
    product, error = convolve(a, b)
    assert float(np.linalg.norm(product - signal.fftconvolve(a, b))) <= 2 * error
    assert float(np.linalg.norm(product - signal.convolve(a, b, method="direct"))) <= error


def test_powers_agree_within_the_bound_on_their_round_off():
    rng = np.random.default_rng(3)
    mass = rng.random(60)
    mass /= mass.sum()
    (power,), (error,) = cyclic_powers(mass, 0, (5,), size=512)
    expected = mass
    for _ in range(4):
        expected = signal.convolve(expected, mass, method="direct")
    assert float(np.linalg.norm(power[: expected.size] - expected)) <= error


@pytest.mark.parametrize("size", [1, 2, 5, 100, 1023, 4097, 100_001, 3_000_001])
def test_transform_sizes_are_at_most_a_third_above_those_of_scipy(size):
    assert size <= fast_fft_size(size) <= max(2, 4 / 3 * fft.next_fast_len(size, real=True))


def test_log_sums():
    x = np.random.default_rng(4).uniform(-800, 800, (5, 200))
    np.testing.assert_allclose(log_sum_exp([*x]), special.logsumexp(x, axis=0), rtol=1e-15)
    running = [special.logsumexp(x[0, : i + 1]) for i in range(200)]
    np.testing.assert_allclose(log_cumsum_exp(x[0]), running, rtol=1e-13)
