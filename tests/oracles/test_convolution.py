"""Convolution powers by FFT: their error against exact whole numbers, and the bound on it."""

import math

import numpy as np
import pytest

from dpcalc.numerics import convolve, cyclic_power_increments, cyclic_powers, fft_relative_error

UNIT = 2**53  # terms are whole multiples of its inverse


def exact_product(a, b, size):
    """Cyclic product of two lists of whole numbers."""
    found = [0] * size
    for i, x in enumerate(a):
        for j, y in enumerate(b) if x else ():
            found[(i + j) % size] += x * y
    return found


def exact_power(whole, count, size):
    """(cyclic power, what it is divided by), rounded to 200 bits after each product."""
    result, factor = [UNIT] + [0] * (size - 1), whole
    scale = 1 << 200
    result, factor = [x * scale // UNIT for x in result], [x * scale // UNIT for x in factor]
    while count:
        if count % 2:
            result = [x // scale for x in exact_product(result, factor, size)]
        count //= 2
        factor = [x // scale for x in exact_product(factor, factor, size)] if count else factor
    return result, scale


def terms(rng, kind, number):
    """Whole numbers that sum to about UNIT: even, falling steeply, or a few of them."""
    weights = {
        "even": rng.random(number),
        "steep": np.exp(-np.linspace(0, 40, number)),
        "few": rng.random(number) ** 30,
    }[kind]
    return [round(float(x) * UNIT) for x in weights / weights.sum()]


def distance(found, exact, scale):
    return math.sqrt(sum((float(x) - y / scale) ** 2 for x, y in zip(found.tolist(), exact, strict=True)))


@pytest.mark.parametrize("kind", ["even", "steep", "few"])
@pytest.mark.parametrize("size", [32, 48, 56, 72, 80, 120, 128])
def test_the_bound_on_the_round_off_holds(size, kind):
    rng = np.random.default_rng(size)
    whole = terms(rng, kind, size // 2)
    mass = np.array([x / UNIT for x in whole])
    for count in (1, 2, 7, 100, 5000):
        ((found, noise),) = cyclic_powers(mass, 0, (count,), size=size)
        exact, scale = exact_power(whole + [0] * (size - len(whole)), count, size)
        assert distance(found, exact, scale) <= noise < 1e-9


@pytest.mark.parametrize("factor", [1, 3, 5, 7, 9, 15])
@pytest.mark.parametrize("doublings", [2, 9, 16])
def test_one_transform_is_far_nearer_than_the_bound_says(factor, doublings):
    """Against the same transform with 64 bits of mantissa, for every odd factor of a size."""
    size = factor * 2**doublings
    x = np.random.default_rng(size).exponential(size=size) ** 8
    found, exact = np.fft.rfft(x).astype(np.clongdouble), np.fft.rfft(x.astype(np.longdouble))
    error = np.sqrt((np.abs(found - exact) ** 2).sum() / (np.abs(exact) ** 2).sum())
    assert error <= 0.1 * fft_relative_error(size, 2.0**-53)


@pytest.mark.parametrize("kind", ["even", "steep"])
def test_what_lies_beyond_a_part_keeps_its_digits(kind):
    rng, size = np.random.default_rng(3), 48
    common, rest = terms(rng, kind, 20), [x >> 30 for x in terms(rng, "even", 20)]
    padding = [0] * (size - 20)
    for count in (1, 3, 200):
        parts = [(np.array([x / UNIT for x in one]), 0) for one in (common, rest)]
        ((found, noise),) = cyclic_power_increments(*parts, (count,), size=size)
        whole, scale = exact_power([x + y for x, y in zip(common, rest, strict=True)] + padding, count, size)
        part, _ = exact_power(common + padding, count, size)
        exact = [x - y for x, y in zip(whole, part, strict=True)]
        assert distance(found, exact, scale) <= noise < 1e-6 * float(sum(exact) / scale)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("few", 30), ("steep", 50)),
        (("few", 3), ("even", 5000)),  # norms 60 times apart: the bound is relative to the smaller one
        (("even", 5000), ("few", 3)),
        (("even", 40), ("even", 2000)),
    ],
)
def test_a_product_of_two_sequences(first, second):
    rng = np.random.default_rng(5)
    a, b = terms(rng, *first), terms(rng, *second)
    product, noise = convolve(np.array([x / UNIT for x in a]), np.array([x / UNIT for x in b]))
    size = len(a) + len(b) - 1
    exact = exact_product(a, b, size)
    assert product.size == size
    assert distance(product, exact, UNIT * UNIT) <= noise < 1e-12
