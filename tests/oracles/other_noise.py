"""What data sets cost under noise that is not Gaussian, and under mechanisms that count units: exact sums.

Straight from the definitions; no bound is used here. A truth may be too small, never too large: where the line is cut
into cells, and what lies far out is put into the outermost ones, only the cell is looked at.
"""

import itertools
import math
from functools import reduce

import numpy as np

CELLS = {1: 60, 2: 12}  # between two whole numbers, by the steps of the run


def hockey_sticks(p, q, epsilons):
    """Both directions, shape (2, n)."""
    return np.array([[np.maximum(a - math.exp(eps) * b, 0).sum() for eps in epsilons] for a, b in ((p, q), (q, p))])


def laplace_cells(means, scale, *, steps):
    """Probability of each cell of the line, Laplace noise around each mean: shape (means, cells)."""
    low, high = math.floor(means.min()), math.ceil(means.max())
    cuts = np.linspace(low, high, max(1, high - low) * CELLS[steps] + 1)
    return np.diff(laplace_below(cuts[None, :] - means[:, None], scale), axis=1, prepend=0.0, append=1.0)


def laplace_below(x, scale):
    return np.where(x < 0, np.exp(np.minimum(x, 0) / scale) / 2, 1 - np.exp(-np.maximum(x, 0) / scale) / 2)


def discrete_laplace_cells(means, scale):
    """The same on whole numbers, what is beyond all means in one cell on either side."""
    low, high = int(means.min()), int(means.max())
    places, decay = np.arange(low, high + 1)[None, :], math.exp(-1 / scale)
    found = (1 - decay) / (1 + decay) * decay ** np.abs(places - means[:, None])
    found[:, 0] = decay ** (means - low) / (1 + decay)
    found[:, -1] = decay ** (high - means) / (1 + decay)
    return found if high > low else np.ones((len(means), 1))


def discrete_gaussian_cells(means, sigma):
    """The same, what is further out than any mean by 6 deviations left out."""
    far = math.ceil(6 * sigma) + 1
    places = np.arange(int(means.min()) - far, int(means.max()) + far + 1)[None, :]
    whole = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    total = np.exp(-(whole**2) / (2 * sigma**2)).sum()
    return np.exp(-((places - means[:, None]) ** 2) / (2 * sigma**2)) / total


def mixtures(run, values, cells):
    """The laws of all outputs of a run on D and D'; `cells` of all means of a step gives their rows."""
    means = run.means(values)
    steps = [cells(np.concatenate([side[:, t] for side in means])) for t in range(means[0].shape[1])]
    laws, start = [], 0
    for weights, side in zip(run.weights(), means, strict=True):
        rows = [step[start : start + len(side)] for step in steps]
        joint = reduce(lambda a, b: np.einsum("i...,ij->i...j", a, b), rows)
        laws.append(np.tensordot(weights, joint, axes=1).ravel())
        start += len(side)
    return laws


def answers(run, truth, bits):
    """The laws of the number of answers 1 in the first step where every drawn record answers with its bit.

    Args:
        run: with the records clipped, and protected.
        truth: probability of the true answer.
        bits: by contribution.
    """
    laws = []
    for weights, matrix in zip(run.weights(), run.incidence, strict=True):
        law = {}
        for weight, row in zip(weights, matrix[:, 0], strict=True):
            ones, zeros = int(row @ bits), int(row.sum() - row @ bits)
            for a, b in itertools.product(range(ones + 1), range(zeros + 1)):
                kept = math.comb(ones, a) * truth**a * (1 - truth) ** (ones - a)
                turned = math.comb(zeros, b) * (1 - truth) ** b * truth ** (zeros - b)
                key = (ones + zeros, a + b)
                law[key] = law.get(key, 0.0) + weight * kept * turned
        laws.append(law)
    keys = sorted({key for law in laws for key in law})
    return [np.array([law.get(key, 0.0) for key in keys]) for law in laws]
