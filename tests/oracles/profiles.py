"""Whole profiles of small nested runs by enumeration, from the definitions in docs/samplers.md and docs/configs.md.

A data set is a nested list whose leaves are the values of records on a line. A unit above adds up the vectors that a
step draws under it, and the unit at the clipping level is cut to [-1, 1]. Nothing of the package is used. Deltas are
sums over cells of outputs, so that they are never above the true ones.
"""

import itertools
import math
from collections import defaultdict
from functools import reduce

import numpy as np
from scipy.special import ndtr

DETAIL = {1: 3000, 2: 160, 3: 40}  # cells along an axis, by the number of steps


def draws(scheme, children):
    """All (probability, drawn children) of one draw; more than there are of a fixed draw takes them all."""
    n = len(children)
    match scheme["scheme"]:
        case "all":
            return [(1.0, tuple(children))]
        case "fixed":
            size = scheme["size"]["at_most"] if isinstance(scheme["size"], dict) else scheme["size"]
            sets = list(itertools.combinations(children, min(size, n)))
            return [(1 / len(sets), drawn) for drawn in sets]
        case "with-replacement":
            runs = list(itertools.product(children, repeat=scheme["size"])) if n else [()]
            return [(1 / len(runs), drawn) for drawn in runs]
        case "poisson":
            q, cap, found = scheme["rate"], scheme.get("max_batch_size", n), []
            for size in range(n + 1):
                for drawn in itertools.combinations(children, size):
                    kept = list(itertools.combinations(drawn, min(size, cap)))
                    found += [(q**size * (1 - q) ** (n - size) / len(kept), each) for each in kept]
            return found
    raise ValueError(scheme)


def added(laws):
    """The law of a sum of independent vectors."""
    total = None
    for law in laws:
        if total is None:
            total = dict(law)
            continue
        both = defaultdict(float)
        for (a, p), (b, q) in itertools.product(total.items(), law.items()):
            both[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q
        total = both
    return total


def cut(law):
    """The law of vectors cut to [-1, 1] in each step."""
    result = defaultdict(float)
    for vector, chance in law.items():
        result[tuple(max(-1.0, min(1.0, x)) for x in vector)] += chance
    return result


def one_step(node, level, schemes, clip):
    """The law of what a unit drawn at `level` adds to one step, as vectors of length 1."""
    if level == len(schemes):
        return {(float(node),): 1.0}
    below = [one_step(child, level + 1, schemes, clip) for child in node]
    total = defaultdict(float)
    for chance, drawn in draws(schemes[level], range(len(node))):
        for vector, p in (added([below[i] for i in drawn]) or {(0.0,): 1.0}).items():
            total[vector] += chance * p
    return cut(total) if level == clip else total


def chosen_steps(scheme, steps):
    """All (probability, steps) that a unit which chooses its steps takes part in."""
    if scheme["scheme"] == "random-allocation":
        sets = list(itertools.combinations(range(steps), scheme["times"]))
        return [(1 / len(sets), chosen) for chosen in sets]
    bins = scheme["bins"]
    if scheme.get("assignment") == "held":
        return [(1 / bins, tuple(range(first, steps, bins))) for first in range(bins)]
    passes = [[first + at for at in range(bins)] for first in range(0, steps, bins)]
    return [
        (bins ** -len(passes), tuple(step for step in chosen if step < steps)) for chosen in itertools.product(*passes)
    ]


def all_steps(node, level, schemes, clip, steps):
    """The law of what a unit adds to all steps, where one level at or below it chooses its steps."""
    choice = schemes[level - 1] if level else {"scheme": ""}
    if choice["scheme"] in {"balls-in-bins", "random-allocation"}:
        each, total = one_step(node, level, schemes, clip), defaultdict(float)
        for chance, chosen in chosen_steps(choice, steps):
            for values in itertools.product(each.items(), repeat=len(chosen)):
                vector = [0.0] * steps
                for step, ((value,), _) in zip(chosen, values, strict=True):
                    vector[step] = value
                total[tuple(vector)] += chance * math.prod(p for _, p in values)
        return total
    total = added([all_steps(child, level + 1, schemes, clip, steps) for child in node]) or {(0.0,) * steps: 1.0}
    return cut(total) if level == clip else total


def law_of(data, schemes, clip, steps):
    """The law of the sums of all steps."""
    if any(scheme["scheme"] in {"balls-in-bins", "random-allocation"} for scheme in schemes):
        return all_steps(data, 0, schemes, clip, steps)
    each = one_step(data, 0, schemes, clip)
    vectors = itertools.product(each.items(), repeat=steps)
    total = defaultdict(float)
    for parts in vectors:
        total[tuple(x for (x,), _ in parts)] += math.prod(p for _, p in parts)
    return total


def deltas(p, q, epsilons, noise, scale):
    """Deltas of P against Q and of Q against P, shape (2, epsilons), from below; noise gaussian or laplace."""
    steps = len(next(iter(p)))
    reach = scale * (8 if noise == "gaussian" else 25)
    centers = [x for law in (p, q) for vector in law for x in vector]
    edges = np.linspace(min(centers) - reach, max(centers) + reach, DETAIL[steps])

    def cell_masses(center):
        x = (edges - center) / scale
        if noise == "gaussian":
            upper, lower = ndtr(-x), ndtr(x)
        else:
            upper = np.where(x > 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x)))
            lower = 1 - upper
        return np.where(x[:-1] > 0, -np.diff(upper), np.diff(lower))

    masses = {center: cell_masses(center) for center in set(centers)}

    def in_cells(law):
        return sum(w * reduce(np.multiply.outer, [masses[x] for x in vector]) for vector, w in law.items())

    a, b = in_cells(p), in_cells(q)
    slopes = np.exp(epsilons)
    return np.array([[np.maximum(x - s * y, 0).sum() for s in slopes] for x, y in ((a, b), (b, a))])
