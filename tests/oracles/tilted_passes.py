"""Monte Carlo simulation of passes of balls in bins under tilted laws: every delta, many bins; no code of dpcalc.

Q: z of every step is N(0, 1). U, the mean over steps of X = exp(z / sigma - 1 / (2 sigma^2)), is the ratio of a pass.

D against D': delta = E_Q (prod U - e^epsilon)_+. Passes are drawn with density U^k / E U^k, an exponential tilt of the
loss itself: U^k is a mean over the k-tuples of steps, and a tuple shifts z of its steps by 1 / sigma for each time that
it holds them. So one large ratio, several, and all steps together are drawn as often as they count. Where one ratio
decides, z of one step is shifted by more than 1 / sigma instead.

D' against D: delta = E_Q (1 - e^epsilon prod U)_+. Small ratios are drawn with density e^(-u X) by rejection.

Where neither helps (much noise, few steps) all z are shifted.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

ORDERS = [1, 1.02, 1.1, 1.3, 1.7, 2, 2.5, 3, 4, 6, 9, 14, 20, 30, 45, 70, 105]
JUMPS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]  # of z of one step beyond 1 / sigma, in deviations
SHIFTS = [0.0, 2.0, 3.5, 5.0, 6.5]  # of the sum of all z, in deviations
BLOCK = 4_000_000  # normal numbers drawn at a time
MAX_RUNS = 100_000  # with tables of up to 106 columns: 100 MB


@lru_cache(64)
def tuples(order, bins, sigma):
    """Log sums over ways to choose steps `order` times: [n][left, used] over steps that are chosen n times and more."""
    n = np.arange(order + 2)
    size = n * (n - 1) / (2 * sigma**2) - gammaln(n + 1)  # log E X^n / n!
    used = np.arange(order + 1)
    least = np.full((order + 1, order + 1), -np.inf)
    least[0] = np.where(used <= bins, gammaln(bins + 1) - gammaln(np.maximum(bins - used, 0) + 1), -np.inf)
    tables = [least]
    for times in range(order, 0, -1):
        table = tables[0].copy()
        for number in range(1, order // times + 1):
            table[times * number :, : order + 1 - number] = np.logaddexp(
                table[times * number :, : order + 1 - number],
                tables[0][: order + 1 - times * number, number:] + number * size[times] - gammaln(number + 1),
            )
        tables.insert(0, table)
    return [least, *tables], size


def log_moment(order, bins, sigma):
    """Log E_Q U^order."""
    return (
        float(tuples(order, bins, sigma)[0][1][order, 0] + gammaln(order + 1) - order * math.log(bins))
        if order
        else 0.0
    )


def drawn_tuples(random, order, bins, sigma, runs):
    """How often each step is chosen, largest numbers first in no order, 0 for none; shape (runs, order)."""
    counts = np.zeros((runs, max(order, 1)), dtype=np.int64)
    if not order:
        return counts
    tables, size = tuples(order, bins, sigma)
    left, used = np.full(runs, order), np.zeros(runs, dtype=np.int64)
    for times in range(1, order + 1):
        numbers = np.arange(order // times + 1)
        after, now = left[:, None] - times * numbers, used[:, None] + numbers
        valid = (after >= 0) & (now <= order)
        logs = tables[times + 1][np.where(valid, after, 0), np.where(valid, now, 0)]
        logs = np.where(valid, logs + numbers * size[times] - gammaln(numbers + 1), -np.inf)
        chances = np.exp(logs - logsumexp(logs, axis=1, keepdims=True)).cumsum(axis=1)
        chosen = (random.random((runs, 1)) > chances[:, :-1]).sum(axis=1)
        place = np.arange(counts.shape[1])
        counts[(place >= used[:, None]) & (place < (used + chosen)[:, None])] = times
        left, used = left - times * chosen, used + chosen
        if not left.any():
            break
    return counts


def summed_ratios(random, counts, bins, sigma, *, shift=0.0, power=1.0):
    """(mean X of a pass, sum of z, mean X^power / E X^power) of each run; `counts` (runs, k) shift the first steps."""
    total, z_total, powers = np.zeros(len(counts)), np.zeros(len(counts)), np.zeros(len(counts))
    width = max(1, min(bins, BLOCK // len(counts)))
    for start in range(0, bins, width):
        z = shift + random.standard_normal((len(counts), min(width, bins - start)))
        some = counts[:, start : start + z.shape[1]]
        z[:, : some.shape[1]] += some / sigma
        z_total += z.sum(axis=1)
        total += np.exp(z / sigma - 1 / (2 * sigma**2)).sum(axis=1)
        if power != 1:
            powers += np.exp(power * z / sigma - (power / sigma) ** 2 / 2).sum(axis=1)
    return total / bins, z_total, powers / bins


def forward_values(random, problem, epsilon, runs, tilt):
    """Weighted values of delta of D against D'; tilt: (order, sum of shifts in deviations)."""
    sigma, bins, passes = problem
    order, deviations = tilt
    few, share = math.floor(order), order - math.floor(order)
    shift = deviations / math.sqrt(bins * passes)
    loss, log_weight = np.zeros(runs), np.zeros(runs)
    for _ in range(passes):
        counts = np.zeros((runs, few + 1), dtype=np.int64)
        more = random.random(runs) < share
        for is_used, times in ((~more, few), (more, few + 1)):
            if is_used.any() and times:
                counts[is_used, :times] = drawn_tuples(random, times, bins, sigma, int(is_used.sum()))
        u, z, _ = summed_ratios(random, counts, bins, sigma, shift=shift)
        log_u = np.log(u)
        own = log_u - shift / sigma
        terms = [math.log1p(-share) + few * own - log_moment(few, bins, sigma)]
        if share:
            terms.append(math.log(share) + (few + 1) * own - log_moment(few + 1, bins, sigma))
        log_weight -= np.logaddexp.reduce(terms) + shift * z - bins * shift * shift / 2
        loss += log_u
    return np.where(loss > epsilon, np.exp(log_weight + loss) * -np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)


def jumping_values(random, problem, epsilon, runs, tilt):
    """Weighted values of delta of D against D'; tilt: (jump of z of one step in a pass, how often there is one)."""
    sigma, bins, passes = problem
    jump, share = tilt
    loss, log_weight = np.zeros(runs), np.zeros(runs)
    for _ in range(passes):
        counts = 1 + jump * sigma * (random.random((runs, 1)) < share)
        u, _, powers = summed_ratios(random, counts, bins, sigma, power=1 + jump * sigma)
        log_weight -= np.log((1 - share) * u + share * powers)
        loss += np.log(u)
    return np.where(loss > epsilon, np.exp(log_weight + loss) * -np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)


def laplace(rate, sigma):
    """(E e^(-rate X), E X e^(-rate X)) by a trapezoid sum."""
    z = np.linspace(-12, 14, 20_001)
    x = np.exp(z / sigma - 1 / (2 * sigma**2))
    weight = np.exp(-z * z / 2 - rate * x) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    return float(weight.sum()), float((weight * x).sum())


def small_ratios(random, shape, sigma, rate):
    """Values of X with density e^(-rate X), by rejection."""
    flat, kept = math.prod(shape), []
    while flat > 0:
        x = np.exp(random.standard_normal(int(flat / laplace(rate, sigma)[0] * 1.02) + 10) / sigma - 1 / (2 * sigma**2))
        kept.append(x[random.random(x.size) < np.exp(-rate * x)][:flat])
        flat -= kept[-1].size
    return np.concatenate(kept).reshape(shape)


def backward_values(random, problem, epsilon, runs, tilt):
    """Weighted values of delta of D' against D; tilt: (rate of the smaller ratios, sum of shifts in deviations)."""
    sigma, bins, passes = problem
    rate, deviations = tilt
    shift = -deviations / math.sqrt(bins * passes)
    loss, log_weight = np.zeros(runs), np.zeros(runs)
    for _ in range(passes):
        if rate:
            total, width = np.zeros(runs), max(1, min(bins, BLOCK // runs))
            for start in range(0, bins, width):
                total += small_ratios(random, (runs, min(width, bins - start)), sigma, rate).sum(axis=1)
            log_weight += rate * total + bins * math.log(laplace(rate, sigma)[0])
            u = total / bins
        else:
            u, z, _ = summed_ratios(random, np.zeros((runs, 1)), bins, sigma, shift=shift)
            log_weight -= shift * z - bins * shift * shift / 2
        loss -= np.log(u)
    return np.exp(log_weight) * np.maximum(0.0, -np.expm1(epsilon - loss))


def backward_tilts(problem, epsilon):
    """Rates at which the mean loss is about epsilon, or less; and shifts alone."""
    sigma, _, passes = problem
    tilts = [(0.0, deviations) for deviations in SHIFTS]

    def excess(log_rate):
        chance, mean = laplace(math.exp(log_rate), sigma)
        return math.log(max(mean / max(chance, 1e-300), 1e-300)) + epsilon / passes

    top = min(12 / sigma + 1 / (2 * sigma**2), 300.0)
    if excess(-12) > 0 > excess(top):
        rate = math.exp(brentq(excess, -12, top))
        tilts += [(rate * factor, 0.0) for factor in (0.5, 0.8, 1.0, 1.3) if laplace(rate * factor, sigma)[0] > 0.1]
    return tilts


def simulated_delta(problem, epsilon, *, is_forward, draws, seed):
    """(mean, standard error, largest share of one run in the sum) of delta; problem: (sigma, bins, passes)."""
    sigma, bins, passes = problem
    runs = min(max(draws // (bins * passes), 20), MAX_RUNS)
    if is_forward:
        tilts = [(forward_values, (order, 0.0)) for order in ORDERS if order * (order - 1) < 1000 * sigma**2]
        tilts += [(forward_values, (order, shift)) for order in (0, 1, 6) for shift in SHIFTS[1:]]
        tilts += [(jumping_values, (jump, min(0.9, 1 / passes))) for jump in JUMPS]
    else:
        tilts = [(backward_values, tilt) for tilt in backward_tilts(problem, epsilon)]

    def spread(choice):
        values, tilt = choice
        trial = values(np.random.default_rng(seed), problem, epsilon, max(runs // (2 * len(tilts)), 20), tilt)
        return trial.std() / trial.mean() if (trial > 0).sum() >= 10 else math.inf

    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        values, tilt = min(tilts, key=spread)
        found = values(np.random.default_rng(seed + 1_000_000), problem, epsilon, runs, tilt)
    mean = float(found.mean())
    return mean, float(found.std()) / math.sqrt(runs), float(found.max()) / max(float(found.sum()), 1e-300)
