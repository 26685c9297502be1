"""Epsilon of one actual pair of data sets of a config, computed from the definitions; shares no code with the package.

All data but the protected units' contribute nothing, or -1 where a fixed draw replaces a unit (which moves the batch
twice as far). A step then shows one of two mixtures over the number H of drawn members: M(shift * h) against M(0), or
against M(-shift * h) where the members are replaced. A phase for which no such pair is written down here is left out,
and so is a loss that is infinite: each makes the answer smaller, never larger.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tests.oracles.fine_lattice import estimated_epsilon
from tests.oracles.inversion import inverted_epsilon
from tests.oracles.loss_parts import TooSlowError, pair_curve

MOST_CELLS = 40_000
ROUNDED = 1e-13  # a delta below which the round-off of a lattice may show in its epsilon
MOST_COPIES = 60  # members or copies of one unit in a step


@dataclass(frozen=True)
class AtomCurve:
    """Outcomes with log probabilities under P and Q, as a part that the numerical oracles can compose."""

    log_p: np.ndarray
    log_q: np.ndarray

    def points(self, order, frequency, *, orders=(0.0, -1.0)):
        del order, frequency, orders
        kept = np.isfinite(self.log_p) & np.isfinite(self.log_q)
        return self.log_p[kept], self.log_p[kept] - self.log_q[kept]


def counts_of(scheme, count, group):
    """Probabilities of H = 0, 1, ... drawn copies of the members of a flat draw, or None where none is written down."""
    kind = scheme["scheme"]
    if kind == "all" or (kind == "fixed" and scheme["size"] == count):
        return {group: 1.0}
    if kind == "poisson" and scheme.get("max_batch_size", count) < count:
        return _cut(scheme["rate"], count, scheme["max_batch_size"]) if group == 1 else None
    if kind == "poisson":
        return _binomial(group, scheme["rate"])
    if kind == "fixed" and scheme["size"] + group <= count:
        return _hypergeometric(count, group, scheme["size"])
    if kind == "with-replacement" and scheme["size"] * group <= MOST_COPIES * count and group < count:
        return _binomial(scheme["size"], group / count)
    return None


def _binomial(n, rate):
    if rate >= 1:
        return {n: 1.0}
    return _kept(
        {k: _log_choose(n, k) + k * math.log(rate) + (n - k) * math.log1p(-rate) for k in range(min(n, 400) + 1)}
    )


def _cut(rate, count, most):
    """One member of a Poisson batch that is cut at random to `most` units."""
    others = stats.binom(count - 1, rate)
    below = others.cdf(most - 1) * rate  # at most `most` - 1 others drawn: nothing is cut
    cut = stats.binom(count, rate).sf(most) * most / count  # of more than `most` drawn each stays with equal chance
    return {0: 1 - below - cut, 1: below + cut}


def _hypergeometric(count, members, size):
    whole = _log_choose(count, size)
    return _kept(
        {
            k: _log_choose(members, k) + _log_choose(count - members, size - k) - whole
            for k in range(min(members, size) + 1)
            if size - k <= count - members
        }
    )


def _log_choose(n, k):
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _kept(logs):
    """Probabilities that matter; the rest goes to H = 0 or the smallest, which can only hide the members."""
    found = {k: math.exp(log) for k, log in logs.items() if log > -80 and k <= MOST_COPIES}
    least = min(found)
    found[least] = 1 - math.fsum(p for k, p in found.items() if k != least)
    return {k: p for k, p in found.items() if p > 0}


def _law(phase, config):
    """(law of H, shift per member, exact) of a phase."""
    data, privacy = config["data"], config["privacy"]
    group = privacy.get("group_size", 1)
    sampling = phase["sampling"]
    if "scheme" in sampling:
        law = counts_of(sampling, data["examples"], group)
        replaced = sampling["scheme"] in {"fixed", "with-replacement"} and law not in ({group: 1.0}, None)
        wide = replaced and privacy["adjacency"] == "add-remove"
        exact = (
            group == 1
            and privacy["adjacency"] != "replace-one"
            and (wide or sampling["scheme"] in {"poisson", "all"})
            and "max_batch_size" not in sampling
        )
        return law, 2 if wide else 1, exact
    if "levels" not in data or any(not isinstance(level.get("count"), int) for level in data["levels"]):
        return None, 1, False
    chance = 1.0
    for level in data["levels"]:
        scheme = sampling.get(level["name"], {"scheme": "all"})
        law = counts_of(scheme, level["count"], 1) if scheme.get("redraw_every", 1) == 1 else None
        if law is None or scheme["scheme"] == "with-replacement":
            return None, 1, False
        chance *= law.get(1, 0.0)
    return ({0: 1 - chance, 1: chance} if chance < 1 else {1: 1.0}), 1, False


def curves(config):
    """[(curve of D||D', curve of D'||D, steps, chance to see a difference)], and whether no data sets cost more."""
    replaced = config["privacy"]["adjacency"] == "replace-one"
    found, exact = [], True
    for phase in config["phases"]:
        law, shift, costliest = _law(phase, config)
        both = None if law is None else _both(phase["mechanism"], law, shift, replaced=replaced)
        if both is None:
            exact = False
            continue
        exact = exact and costliest and phase["mechanism"].keys() <= {"type", "noise_multiplier", "clip"}
        found.append((*both, phase["training"]["steps"], 1 - law.get(0, 0.0)))
    return found, exact and all(phase["mechanism"]["type"] == "gaussian" for phase in config["phases"])


def _both(mechanism, law, shift, *, replaced):
    """The curves of one step in both directions."""
    kind = mechanism["type"]
    p = {shift * h: chance for h, chance in law.items()}
    q = {-m: chance for m, chance in p.items()} if replaced else {0: 1.0}
    if kind in {"gaussian", "zcdp", "rdp-curve"}:
        if kind != "gaussian" and set(p) - {0, 1}:
            return None
        sigma = _gaussian_noise(mechanism)
        if sigma is None or (kind != "gaussian" and replaced):
            return None
        return pair_curve(p, q, sigma), pair_curve(q, p, sigma)
    atoms = _atoms(mechanism, p, q, replaced=replaced)
    if atoms is None:
        return None
    return [AtomCurve(*atoms)], [AtomCurve(*atoms[::-1])]


def _gaussian_noise(mechanism):
    """The deviation of Gaussian noise that keeps the promise of the mechanism."""
    match mechanism["type"]:
        case "gaussian":
            return mechanism["noise_multiplier"]
        case "zcdp":
            return 1 / math.sqrt(2 * mechanism["rho"]) if "omega" not in mechanism else None
        case _:
            return math.sqrt(mechanism["curve"][0][0] / (2 * mechanism["curve"][0][1]))


def _atoms(mechanism, p, q, *, replaced):
    """Log probabilities of the outcomes under both mixtures."""
    means = sorted({*p, *q})
    kind = mechanism["type"]
    if kind == "laplace":
        rows = _laplace(means, mechanism["noise_multiplier"])
    elif kind == "discrete-laplace":
        places = np.arange(means[0], means[-1] + 1)
        b = mechanism["noise_multiplier"]
        log_decay = -1 / b
        rows = [np.abs(places - m) * log_decay + _log1m_exp(log_decay) - math.log1p(math.exp(log_decay)) for m in means]
        for m, row in zip(means, rows, strict=True):  # everything further out is one outcome on either side
            row[0] = (m - means[0]) * log_decay - math.log1p(math.exp(log_decay))
            row[-1] = (means[-1] - m) * log_decay - math.log1p(math.exp(log_decay))
        if len(places) == 1:
            return None
    elif kind == "discrete-gaussian":
        s = mechanism["noise_multiplier"]
        far = math.ceil(40 * s) + 2
        if far + means[-1] > MOST_CELLS:
            return None
        places = np.arange(means[0] - far, means[-1] + far + 1)
        whole = np.arange(-far, far + 1)
        norm = math.log(math.fsum(np.exp(-(whole**2) / (2 * s * s))))
        rows = [-((places - m) ** 2) / (2 * s * s) - norm for m in means]
    elif kind in {"pure-dp", "approximate-dp", "randomized-response"} and not replaced and set(p) <= {0, 1}:
        if kind == "randomized-response":
            return None
        eps, delta = mechanism["epsilon"], mechanism.get("delta", 0.0)
        rows = _two_answers(eps, delta)
    elif kind == "randomized-response" and replaced and p == {1: 1.0}:
        truth, others = mechanism["truth_probability"], mechanism["categories"] - 1
        lie = math.log1p(-truth) - math.log(others)
        first = np.array([math.log(truth), lie, *([lie + math.log(others - 1)] if others > 1 else [])])
        return first, first[[1, 0, *([2] if others > 1 else [])]]
    else:
        return None
    by_mean = dict(zip(means, rows, strict=True))
    return _mixture(p, by_mean), _mixture(q, by_mean)


def _two_answers(eps, delta):
    """A member is absent (first row) or present (second): outcomes 0, 1, and one that only the presence gives."""
    yes, no = -math.log1p(math.exp(-eps)), -eps - math.log1p(math.exp(-eps))
    kept = math.log1p(-delta)
    gone = -math.inf if not delta else math.log(delta)
    return [np.array([yes + kept, no + kept, -math.inf]), np.array([no + kept, yes + kept, gone])]


def _laplace(means, scale):
    """Cells of the line between the outermost means, and what is beyond them."""
    width = means[-1] - means[0]
    cells = int(min(MOST_CELLS, max(4, 150 * math.ceil(width / scale))))
    cuts = np.linspace(means[0], means[-1], cells + 1)
    cuts = np.unique(np.concatenate([cuts, np.array(means, dtype=float)]))
    rows = []
    for mean in means:
        left, right = cuts[:-1] - mean, cuts[1:] - mean
        below = right <= 0
        near = np.where(below, -right, left) / scale  # distance of the nearer end
        with np.errstate(divide="ignore"):  # an interval that is as narrow as a float, against the noise, has no mass
            inside = -near - math.log(2) + np.log(-np.expm1(-(right - left) / scale))
        first = (cuts[0] - mean) / scale - math.log(2) if cuts[0] <= mean else math.nan
        last = -(cuts[-1] - mean) / scale - math.log(2)
        rows.append(np.concatenate([[first], inside, [last]]))
    return rows


def _log1m_exp(x):
    return math.log(-math.expm1(x))


def _mixture(weights, rows):
    terms = np.array([rows[mean] + math.log(weight) for mean, weight in weights.items()])
    top = terms.max(axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(terms - safe).sum(axis=0)) + safe


def epsilon(config, *, most_phases=8):
    """(epsilon of the pair of data sets, bound on its error, whether no pair costs more); None where none is known."""
    found, exact = curves(config)
    if not found:
        return None
    if len(found) > most_phases:
        found, exact = sorted(found, key=lambda one: -one[2])[:most_phases], False
    if sum(steps * chance for _, _, steps, chance in found) < (1 - 1e-9) * config["privacy"]["delta"]:
        return 0.0, 0.0, exact
    best, error = 0.0, 0.0
    for direction in (0, 1):
        counts = [(one[direction], one[2]) for one in found]
        delta = config["privacy"]["delta"]
        try:
            if len(counts) <= 3 and delta > ROUNDED:
                value, off = estimated_epsilon(counts, delta)
            else:
                value = inverted_epsilon(counts, delta, most=400)
                off = 1e-8 * value + 1e-12
        except TooSlowError:
            exact = False
            continue
        if math.isfinite(value) and value > best:
            best, error = value, off
    return best, error, exact
