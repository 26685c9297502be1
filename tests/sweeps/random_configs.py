"""Random configs over all mechanisms, sampling schemes, levels, relations and 1 to 50 phases; as YAML's JSON subset."""

import math
from zlib import crc32

import numpy as np

COUNTS = (1, 2, 3, 5, 8, 20, 100, 1000, 60_000, 1_000_000)
ADJACENCIES = ("add-remove", "replace-one", "zero-out")
NAMES = ("user", "session", "example")


def generator(*seed):
    return np.random.default_rng(list(seed))


def log_uniform(rng, low, high):
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.5g}")


def random_count(rng):
    if rng.random() < 0.1:
        low, high = sorted(int(n) for n in rng.choice(COUNTS[1:7], 2))
        return {"min": low, "max": high}
    return int(rng.choice(COUNTS))


def random_tree(rng, depth):
    """Counts nested by level, ragged, with `depth` levels."""
    if depth == 1:
        return int(rng.integers(1, 9))
    return [random_tree(rng, depth - 1) for _ in range(int(rng.integers(1, 5)))]


def random_data(rng):
    """The `data` section and the smallest count of each level."""
    depth = int(rng.choice([1, 2, 3], p=[0.6, 0.28, 0.12]))
    names = NAMES[-depth:]
    if depth == 1:
        count = int(rng.choice(COUNTS))
        return {"examples": count}, ("example",), (count,)
    if rng.random() < 0.12:
        tree = [random_tree(rng, depth - 1) for _ in range(int(rng.integers(2, 6)))]
        return {"levels": [{"name": name} for name in names], "tree": tree}, names, (len(tree), *([1] * (depth - 1)))
    counts = [random_count(rng) for _ in range(depth)]
    counts[0] = int(rng.choice(COUNTS))
    smallest = tuple(count["min"] if isinstance(count, dict) else count for count in counts)
    return {"levels": [{"name": n, "count": c} for n, c in zip(names, counts, strict=True)]}, names, smallest


def random_scheme(rng, smallest):
    """How a step draws one level of which every parent holds at least `smallest` units."""
    kind = rng.choice(["all", "poisson", "fixed", "with-replacement", "shuffle"], p=[0.18, 0.37, 0.27, 0.1, 0.08])
    if kind == "all":
        return {"scheme": "all"}
    if kind == "poisson":
        rate = min(1.0, log_uniform(rng, 1e-6, 1.3))
        chosen = crc32(str(rate).encode())  # which draws are cut: no random number, so that the other configs stay
        cap = {"max_batch_size": 1 + int(smallest * rate * (chosen % 7) / 3)} if chosen % 5 == 1 else {}
        return {"scheme": "poisson", "rate": rate, **cap}
    size = max(1, min(smallest, round(math.exp(rng.uniform(0, math.log(max(smallest, 2)))))))
    return {"scheme": str(kind), "size": size}


def random_sampling(rng, names, smallest):
    schemes = {name: random_scheme(rng, count) for name, count in zip(names, smallest, strict=True)}
    if len(names) > 1 and rng.random() < 0.12 and schemes[names[0]]["scheme"] in {"poisson", "fixed"}:
        schemes[names[0]]["redraw_every"] = int(rng.choice([2, 5, 10, 100]))
    return schemes if len(names) > 1 else schemes["example"]


def randomized_response(rng):
    categories = int(rng.choice([2, 3, 10, 1000]))
    truth = 1 - (1 - 1 / categories) * log_uniform(rng, 1e-12, 0.999)
    return {"truth_probability": truth, "categories": categories}


def gaussian_curve(rng):
    """Renyi divergences of Gaussian noise at a few orders."""
    sigma = log_uniform(rng, 0.5, 50)
    return {"curve": [[order, order / (2 * sigma**2)] for order in (1.5, 2, 4, 8, 16, 64, 256)]}


MECHANISMS = {
    "gaussian": (0.5, lambda rng: {"noise_multiplier": log_uniform(rng, 0.2, 200)}),
    "laplace": (0.09, lambda rng: {"noise_multiplier": log_uniform(rng, 0.02, 200)}),
    "discrete-gaussian": (0.07, lambda rng: {"noise_multiplier": log_uniform(rng, 0.2, 100)}),
    "discrete-laplace": (0.07, lambda rng: {"noise_multiplier": log_uniform(rng, 0.02, 200)}),
    "randomized-response": (0.05, randomized_response),
    "approximate-dp": (
        0.05,
        lambda rng: {"epsilon": log_uniform(rng, 1e-3, 50), "delta": log_uniform(rng, 1e-30, 1e-4)},
    ),
    "pure-dp": (0.05, lambda rng: {"epsilon": log_uniform(rng, 1e-3, 90)}),
    "zcdp": (0.05, lambda rng: {"rho": log_uniform(rng, 1e-6, 50)}),
    "exponential": (0.03, lambda rng: {"epsilon": log_uniform(rng, 1e-3, 90)}),
    "rdp-curve": (0.04, gaussian_curve),
}
"""By name: how often it is drawn, and its parameters."""
SUMS = ["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]


def random_mechanism(rng, names):
    kind = str(rng.choice(list(MECHANISMS), p=[often for often, _ in MECHANISMS.values()]))
    found = {"type": kind, **MECHANISMS[kind][1](rng)}
    if kind == "gaussian" and rng.random() < 0.05:
        found["also"] = {"noise_multiplier": log_uniform(rng, 1, 200)}
    if kind in SUMS and rng.random() < 0.1:
        found["also"] = {"type": str(rng.choice(SUMS)), "noise_multiplier": log_uniform(rng, 1, 100)}
    if "noise_multiplier" in found and len(names) > 1 and rng.random() < 0.5:
        found["clip"] = str(rng.choice([*names, "batch"]))
    return found


def random_config(rng):
    """One config, as a dictionary; most are accepted, some are refused with a reason."""
    data, names, smallest = random_data(rng)
    number = int(rng.choice([1, int(rng.integers(2, 6)), int(rng.integers(6, 51))], p=[0.55, 0.25, 0.2]))
    alike = rng.random() < 0.3
    mechanism, sampling = random_mechanism(rng, names), random_sampling(rng, names, smallest)
    phases = []
    for place in range(number):
        if place and not alike:
            mechanism, sampling = random_mechanism(rng, names), random_sampling(rng, names, smallest)
        elif place:
            mechanism = mechanism | {
                key: log_uniform(rng, 0.3, 30) for key in ("noise_multiplier",) if key in mechanism
            }
        steps = int(log_uniform(rng, 1, 10 ** rng.uniform(0.1, 6)))
        phase = {"name": f"p{place}", "sampling": sampling, "mechanism": mechanism, "training": {"steps": steps}}
        phases.append(phase)
    privacy = {"adjacency": str(rng.choice(ADJACENCIES)), "delta": log_uniform(rng, 1e-40, 0.5)}
    if len(names) > 1:
        privacy["unit"] = str(rng.choice(names))
    if rng.random() < 0.15:
        privacy["group_size"] = int(rng.integers(2, 7))
    return {"version": 1, "data": data, "privacy": privacy, "phases": phases}
