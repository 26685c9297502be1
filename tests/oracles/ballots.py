"""Ensembles for the tests: synthetic votes, and the exact distribution of a noisy winner."""

import itertools
import math

import numpy as np

from dpcalc.mechanisms.black_box import ConfidentGNMax, LNMax, Votes

TEACHERS = 250


def synthetic(queries):
    """Votes of 250 teachers on ten labels without a random number: leads from overwhelming to small."""
    rows = []
    for number in range(queries):
        top = 250 - (37 * number) % 120 - (number % 7 == 0) * 40
        second = (250 - top) * (3 + number % 5) // 8
        third = (250 - top - second) * 2 // 3
        row = [0] * 10
        row[number % 10], row[(number + 3) % 10], row[(number + 5) % 10] = top, second, third
        row[(number + 6) % 10] = 250 - top - second - third
        rows.append(row)
    return ensemble(rows)


def ensemble(rows):
    """Votes with rows that all sum to the same."""
    return Votes(counts=np.array(rows), teachers=sum(rows[0]))


def neighbours(row):
    """All votes in which one teacher chose another label."""
    for giver, taker in itertools.permutations(range(len(row)), 2):
        if row[giver]:
            yield [count - (at == giver) + (at == taker) for at, count in enumerate(row)]


def gaussian(scale):
    """(log cdf, log pdf, reach) of normal noise."""
    below = np.vectorize(lambda y: math.log(max(math.erfc(-y / scale / math.sqrt(2)) / 2, 1e-320)))
    return below, lambda y: -y * y / 2 / scale**2 - math.log(scale * math.sqrt(2 * math.pi)), 9 * scale


def laplace(scale):
    """(log cdf, log pdf, reach) of Laplace noise."""

    def below(y):
        tail = np.exp(-np.abs(y) / scale) / 2
        return np.where(y < 0, np.log(tail), np.log1p(-tail))

    return below, lambda y: -np.abs(y) / scale - math.log(2 * scale), 36 * scale


def log_winner(row, noise):
    """Log probability that each label wins, by the trapezoid rule."""
    below, density, reach = noise
    x = np.linspace(min(row) - reach, max(row) + reach, 4001)
    under = {count: below(x - count) for count in set(row)}
    logs = []
    for at, count in enumerate(row):
        rivals = sum(under[other] for place, other in enumerate(row) if place != at)
        logs.append(np.logaddexp.reduce(density(x - count) + rivals))
    return np.array(logs) - np.logaddexp.reduce(logs)


def outcomes(row, mechanism):
    """Log probabilities of each label, and of none."""
    if isinstance(mechanism, LNMax):
        return np.append(log_winner(row, laplace(1 / mechanism.gamma)), -math.inf)
    winner = log_winner(row, gaussian(mechanism.noise_multiplier))
    if not isinstance(mechanism, ConfidentGNMax):
        return np.append(winner, -math.inf)
    away = (mechanism.threshold - max(row)) / mechanism.threshold_noise_multiplier / math.sqrt(2)
    return np.append(winner + math.log(math.erfc(away) / 2), math.log(math.erfc(-away) / 2))
