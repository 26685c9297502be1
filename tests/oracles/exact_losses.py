"""Profiles of small steps and of their compositions with 50 digits, from their definitions alone.

A step is two laws on the same outcomes. The one-step bound puts the losses above 0 of one pair of laws and those below
0 of another one together; what is left has no loss.
"""

import itertools

import mpmath

DIGITS = 50


def whole_noise(kind, scale, centers, reach=60):
    """Probability of each whole number, the noise around each center: one row a center."""
    places = [*range(min(centers) - reach, max(centers) + reach + 1)]
    if kind == "discrete-laplace":
        decay = mpmath.exp(-1 / mpmath.mpf(scale))
        low, high = min(centers), max(centers)  # beyond all centers ratios stay: one outcome on either side
        inside = [[(1 - decay) / (1 + decay) * decay ** abs(y - c) for y in range(low + 1, high)] for c in centers]
        ends = [(decay ** (c - low) / (1 + decay), decay ** (high - c) / (1 + decay)) for c in centers]
        return [[left, *row, right] for row, (left, right) in zip(inside, ends, strict=True)]
    weights = [[mpmath.exp(-(mpmath.mpf(y - c) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for y in places] for c in centers]
    total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for y in range(-200, 201))
    return [[w / total for w in row] for row in weights]


def mixed(law, kind, scale, centers):
    """The law of noise around a random center; `law` is probability by center."""
    rows = dict(zip(centers, whole_noise(kind, scale, centers), strict=True))
    return [
        mpmath.fsum(mpmath.mpf(p.numerator) / p.denominator * rows[c][i] for c, p in law.items())
        for i in range(len(rows[centers[0]]))
    ]


def glued_losses(ahead, back):
    """(loss, P mass) of the one-step bound: ahead = (P, Q) gives losses > 0, back = (P', Q') those below 0.

    Args:
        ahead: the laws of the direction D||D'.
        back: the laws of the direction D'||D, the larger one first.
    """
    found = [(mpmath.log(p / q), p) for p, q in zip(*ahead, strict=True) if p > q]
    found += [(-mpmath.log(p / q), q) for p, q in zip(*back, strict=True) if p > q]
    return [*found, (mpmath.mpf(0), 1 - mpmath.fsum(mass for _, mass in found))]


def pair_losses(p, q):
    """(loss, P mass) of two laws."""
    return [(mpmath.log(a / b), a) for a, b in zip(p, q, strict=True) if a]


def composed_delta(losses, steps, epsilon):
    """The profile of some copies of a step at an epsilon: a sum over all outcomes."""
    by_loss = {}
    for loss, mass in losses:
        by_loss[loss] = by_loss.get(loss, 0) + mass
    sums = {mpmath.mpf(0): mpmath.mpf(1)}
    for _ in range(steps):
        found = {}
        for (a, p), (b, q) in itertools.product(sums.items(), by_loss.items()):
            found[a + b] = found.get(a + b, 0) + p * q
        sums = found
    return mpmath.fsum(mass * (1 - mpmath.exp(epsilon - loss)) for loss, mass in sums.items() if loss > epsilon)
