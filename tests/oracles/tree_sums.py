"""The batch sum of one explicit data set: exact laws by recursion over the tree, and a composition of its own.

A tree is nested counts, as in `unequal`. A draw is ("fixed", "again", "poisson", "capped" or "all", amount), one for
each level; the amount is a size, a rate, (rate, cap) or None. The data set is that of docs/theory.md, Theorem 10.1:
contents of the protected units of full length, of the others one number for each level, shortened or set to 0 where
units are unequal.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

from tests.oracles.brute_force import ADD_REMOVE, ZERO_OUT
from tests.oracles.unequal import children, units

SIZED = {"fixed", "again"}  # draws of a fixed size


def added(a, b):
    """The law of a sum of independent values; of pairs, of their largest entries."""
    total = {}
    for (x, p), (y, q) in itertools.product(a.items(), b.items()):
        both = tuple(map(max, x, y)) if isinstance(x, tuple) else x + y
        total[both] = total.get(both, 0) + p * q
    return total


def mixed(*parts):
    """The law of a mixture of (weight, law)."""
    total = {}
    for weight, law in parts:
        for x, p in law.items() if weight else ():
            total[x] = total.get(x, 0) + weight * p
    return total


def drawn(draw, laws, nothing):
    """The law of what is drawn from units with these laws."""
    kind, amount = draw
    if kind in {"all", "poisson"}:
        rate, total = Fraction(1 if kind == "all" else amount), {nothing: Fraction(1)}
        for law in laws:
            total = added(total, mixed((rate, law), (1 - rate, {nothing: Fraction(1)})))
        return total
    if kind == "again":
        one, total = mixed(*((Fraction(1, len(laws)), law) for law in laws)), {nothing: Fraction(1)}
        for _ in range(amount if laws else 0):
            total = added(total, one)
        return total
    size = min(amount[1] if kind == "capped" else amount, len(laws))
    ways = [{nothing: Fraction(1)}, *({} for _ in range(size))]
    for law in laws:
        for taken in range(size, 0, -1):
            ways[taken] = mixed((1, ways[taken]), (1, added(ways[taken - 1], law)))
    if kind == "capped":  # of T drawn units min(T, cap) stay, a uniform subset of all
        chances = [Fraction(0)] * (size + 1)
        for number in range(len(laws) + 1):
            rate = amount[0] ** number * (1 - amount[0]) ** (len(laws) - number)
            chances[min(number, size)] += math.comb(len(laws), number) * rate
        return mixed(*((chance / math.comb(len(laws), k), ways[k]) for k, chance in enumerate(chances)))
    return {x: p / math.comb(len(laws), size) for x, p in ways[size].items()}


@dataclass(frozen=True)
class DataSet:
    """One data set, D and D': the members contribute -1 (replaced: 1), units beside them one number for each level.

    Attributes:
        tree, draws: nested counts, and how each level is drawn.
        members: paths of the protected units, of one frame.
        clip, relation: as they say.
        others: content of the units beside the members, by level down to theirs.
    """

    tree: object
    draws: tuple
    members: tuple
    clip: int
    relation: str
    others: tuple

    @property
    def unit(self):
        return len(self.members[0])

    @property
    def alike(self):
        """The units of which each contributes as much as the smallest."""
        return self.members if len(self.members) == 1 else tuple(children(self.tree, self.members[0][:-1]))

    def certain(self, path):
        """Contributions of a unit whenever it is drawn; 0 if they are random."""
        if len(path) >= self.clip:
            return 1
        kind, amount = self.draws[len(path)]
        below = [self.certain(child) for child in children(self.tree, path)]
        if kind in SIZED:
            return amount * min(below)
        return sum(below) if kind == "all" else 0

    def is_counted(self, path, above, under=((),)):
        """Whether the unit is, at each level below `above`, among the first units of a frame, as many as any has."""
        for level in range(above, len(path)):
            frames = [frame for frame in units(self.tree, level) if any(frame[: len(u)] == u for u in under)]
            if self.draws[level][0] not in SIZED and path[level] >= min(len(children(self.tree, f)) for f in frames):
                return False
        return True

    def share(self, path, above):
        """The length of a vector under a unit of level `above` whose draws of a fixed size all add up to the same."""
        share = Fraction(1)
        for level in range(above, self.clip):
            if self.draws[level][0] in SIZED:
                least = min(self.certain(child) for child in children(self.tree, path[:level]))
                share *= Fraction(least, self.certain(path[: level + 1]))
        return share

    def of_member(self, path, primed):
        """The content of a clipping unit at or below a member."""
        sign = 0 if primed and self.relation == ZERO_OUT else 1 if primed else -1
        member, own = path[: self.unit], min(map(self.certain, self.alike))
        if not own:
            return Fraction(sign * self.is_counted(path, self.unit, self.alike))
        if self.unit < self.clip and self.draws[self.unit][0] == "fixed" and len(self.alike) == 1:
            return sign * self.share(path, self.unit + 1)
        return sign * self.share(path, self.unit) * Fraction(own, self.certain(member))

    def is_whole(self, parent):
        """Whether all units of a frame are drawn."""
        kind, amount = self.draws[len(parent)]
        return kind == "all" or (kind == "fixed" and amount == len(children(self.tree, parent)))

    def of_other(self, path, level):
        """The content of a clipping unit that leaves the members' path at this level, from 0."""
        frame = children(self.tree, path[:level])
        if all(self.is_whole(path[:above]) for above in range(level + 1)):
            return Fraction(0)  # they are in every batch
        least = min(self.certain(child) for child in frame if child != self.members[0][: level + 1])
        if least:
            return self.others[level] * self.share(path, level + 1) * Fraction(least, self.certain(path[: level + 1]))
        sizes = [{len(children(self.tree, each)) for each in units(self.tree, at)} for at in range(len(self.draws))]
        is_known = all(kind != "capped" or len(n) == 1 for (kind, _), n in zip(self.draws, sizes, strict=True))
        return Fraction(self.others[level] * (is_known and self.is_counted(path, level + 1)))

    def seen(self, path, primed):
        """The law of (a record of a member is drawn, another one) in what is drawn below a clipping unit."""
        if len(path) < len(self.draws):
            laws = [self.seen(child, primed) for child in self.present(path, primed)]
            return drawn(self.draws[len(path)], laws, (0, 0))
        if path[: self.unit] in self.members:
            is_zero = primed and self.relation == ZERO_OUT
            return {(int(not is_zero and self.is_counted(path, max(self.unit, self.clip), self.alike)), 0): Fraction(1)}
        return {(0, int(self.is_counted(path, max(self.clip, self.shared(path) + 1)))): Fraction(1)}

    def shared(self, path):
        """How many levels a path shares with that of a member."""
        return max(
            next((i for i, (a, b) in enumerate(zip(path, m, strict=False)) if a != b), len(m)) for m in self.members
        )

    def present(self, path, primed):
        gone = self.members if primed and self.relation == ADD_REMOVE else ()
        return [child for child in children(self.tree, path) if child not in gone]

    def total(self, path, primed):
        """The law of the sum of the clipped vectors drawn under a unit."""
        if len(path) < self.clip:
            laws = [self.total(child, primed) for child in self.present(path, primed)]
            return drawn(self.draws[len(path)], laws, Fraction(0))
        seen = self.seen(path, primed)
        if self.clip >= self.unit:
            is_own = path[: self.unit] in self.members
            value = self.of_member(path, primed) if is_own else self.of_other(path, self.shared(path))
            values = {(1, 0): value, (0, 1): value}
        elif path == self.members[0][: self.clip]:
            own = Fraction(1 if primed else -1)
            values = {(1, 0): own, (1, 1): own, (0, 1): Fraction(self.others[-1])}
        else:
            values = {(0, 1): self.of_other(path, self.shared(path))}
        return mixed(*((chance, {values.get(state, Fraction(0)): Fraction(1)}) for state, chance in seen.items()))

    def pair(self):
        """The laws of the batch sum of D and of D'."""
        return self.total((), 0), self.total((), 1)


def epsilon_of_steps(parts, delta, size=1 << 19):
    """Epsilon of independent steps, from above by less than 1e-5 of it: (P, Q, (noise, scale), number) of sums' laws.

    Masses of loss on a lattice keep the mean of exp(-loss); one power of a Fourier transform composes them.
    """
    steps, mean, variance, largest = [], 0.0, 0.0, 0.0
    for p, q, (noise, scale), number in parts:
        in_plane = isinstance(next(iter(p)), tuple)
        losses_of = {"gaussian": _in_the_plane if in_plane else _on_the_line, "laplace": _under_laplace}
        masses, losses = losses_of.get(noise, partial(_under_whole, noise))(p, q, scale)
        steps.append((masses, losses, number))
        average = losses @ masses
        mean, variance = mean + number * average, variance + number * (losses**2 @ masses - average**2)
        largest = max(largest, losses[masses * number > delta * 1e-4].max())
    spacing = 2 * max(14 * math.sqrt(variance) + 4 * largest, 20) / size
    transform = 1.0
    for masses, losses, number in steps:
        below = np.floor(losses / spacing).astype(int)
        share = np.expm1(below * spacing - losses) / np.expm1(-spacing)
        lattice = np.bincount(below % size, masses * (1 - share), size)
        lattice += np.bincount((below + 1) % size, masses * share, size)
        transform = transform * np.fft.rfft(lattice) ** number
    first = round(mean / spacing) - size // 2
    values = spacing * np.arange(first, first + size)
    total = np.fft.irfft(transform, size)[np.arange(first, first + size) % size]

    def excess(epsilon):
        above = values > epsilon
        return total[above] @ -np.expm1(epsilon - values[above]) - delta

    return brentq(excess, 0.0, values[-1], xtol=1e-9) if excess(0.0) > 0 else 0.0


def _on_the_line(p, q, sigma):
    centers = [float(center) for center in {*p, *q}]
    cell = min(sigma / 400, sigma**2 / (8 * (max(centers) - min(centers) + 1)))
    points = np.arange(min(centers) - 10 * sigma, max(centers) + 10 * sigma, cell)
    log_p, log_q = (_log_density(points, law, sigma) for law in (p, q))
    return np.exp(log_p) * cell, log_p - log_q


def _under_laplace(p, q, scale):
    """Masses and losses of cells between which the densities have no kink; beyond all centers the loss is constant."""
    centers = sorted(float(center) for center in {*p, *q})
    cells = max(40, int(4e3 / scale / len(centers)))
    cuts = [np.linspace(a, b, cells + 1) for a, b in itertools.pairwise(centers)]
    cuts = np.unique(np.concatenate([[centers[0] - 60 * scale], *cuts, [centers[0], centers[-1] + 60 * scale]]))
    sides = []
    for law in (p, q):
        below = [_laplace_below((cuts - float(center)) / scale) for center in law]
        sides.append(np.diff(below, axis=1).T @ np.array([float(weight) for weight in law.values()]))
    likely = (sides[0] > 1e-18) & (sides[1] > 1e-18)
    return sides[0][likely], np.log(sides[0][likely] / sides[1][likely])


def _laplace_below(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def _under_whole(noise, p, q, scale):
    """Masses and losses on the whole numbers."""
    far = math.ceil(36 * scale)
    whole = np.arange(min({*p, *q}) - far, max({*p, *q}) + far + 1).astype(float)
    one = {"discrete-gaussian": lambda x: -(x**2) / (2 * scale**2), "discrete-laplace": lambda x: -np.abs(x) / scale}
    total = np.exp(one[noise](np.arange(-2.0 * far, 2 * far + 1))).sum()
    centers = [np.array([float(x) for x in law]) for law in (p, q)]
    weights = [np.array([float(x) for x in law.values()]) for law in (p, q)]
    sides = [np.exp(one[noise](whole[:, None] - c)) @ w / total for c, w in zip(centers, weights, strict=True)]
    likely = (sides[0] > 1e-280) & (sides[1] > 1e-280)
    return sides[0][likely], np.log(sides[0][likely] / sides[1][likely])


def _in_the_plane(p, q, sigma):
    """Masses and losses at the points of a fine square lattice."""
    centers = np.array([*p, *q])
    cell, sides = sigma / 30, []
    axes = [
        np.arange(low - 9 * sigma, high + 9 * sigma, cell)
        for low, high in zip(*np.sort(centers, 0)[[0, -1]], strict=True)
    ]
    for law in (p, q):
        factors = [norm.pdf(axis[:, None], [center[i] for center in law], sigma) for i, axis in enumerate(axes)]
        sides.append(((factors[0] * [float(weight) for weight in law.values()]) @ factors[1].T).ravel() * cell**2)
    likely = sides[0] > 1e-25
    return sides[0][likely], np.log(sides[0][likely] / sides[1][likely])


BASE = 10**6


def markers(vectors):
    """Contents by level, from which `placed` reads how many vectors of each level a sum holds; 0 where they are 0."""
    return tuple(BASE ** (level + 1) * bool(np.any(vector)) for level, vector in enumerate(vectors))


def placed(law, vectors):
    """The law of the sum in the plane: the members' along (1, 0), and as many of each level's vectors as there are."""
    unit = math.lcm(*(Fraction(x).denominator for x in law))
    total = {}
    for x, weight in law.items():
        rest, center = int(x * unit), np.zeros(2)
        for vector in ((1.0, 0.0), *vectors):
            number = (rest + BASE // 2) % BASE - BASE // 2
            rest, center = (rest - number) // BASE, center + number / unit * np.array(vector)
        total[tuple(center.tolist())] = total.get(tuple(center.tolist()), 0) + weight
    return total


def _log_density(points, law, sigma):
    centers, weights = (np.array([float(x) for x in part]) for part in (law.keys(), law.values()))
    logs = np.log(weights) - ((points[:, None] - centers) / sigma) ** 2 / 2
    return logsumexp(logs, axis=1) - math.log(sigma * math.sqrt(2 * math.pi))
