"""A profile that is known at points, as a pair: test data of losses with finitely many values."""

import math
from itertools import accumulate, pairwise

from dpcalc.losses.atoms import Atoms


def pair_of_chords(delta, losses, infinity_mass):
    """The pair whose profile joins `delta` at increasing `losses` by chords in e^epsilon: nowhere below `delta`.

    Losses below the first point do not occur, those above the last are infinite.
    """
    log_x = [-math.inf, *losses.tolist()]  # at e^epsilon = 0 every profile is 1
    values = [1.0, *(delta(loss) for loss in log_x[1:-1]), max(delta(log_x[-1]), infinity_mass)]
    values = list(accumulate(values, min))  # no profile rises
    x = [math.exp(x_log) for x_log in log_x]
    # A profile is convex in e^epsilon: values above the lower hull are round-off. Masses are the changes of its slope.
    hull = []
    for at in range(len(x)):
        while len(hull) > 1 and is_above_chord(x, values, hull[-2], hull[-1], at):
            hull.pop()
        hull.append(at)
    slopes = [(values[i] - values[j]) / (x[j] - x[i]) for i, j in pairwise(hull)] + [0.0]
    masses = [x[at] * (before - after) for at, (before, after) in zip(hull[1:], pairwise(slopes), strict=True)]
    kept = [(log_x[at], mass) for at, mass in zip(hull[1:], masses, strict=True) if mass > 0]
    return Atoms.of_masses((loss for loss, _ in kept), (mass for _, mass in kept), infinity_mass=values[hull[-1]])


def is_above_chord(x, values, i, j, k):
    """Point j lies on or above the chord from point i to point k."""
    return (values[j] - values[i]) * (x[k] - x[i]) >= (values[k] - values[i]) * (x[j] - x[i])
