"""Configs of about 1 KB that ask for as much work as a few lines can: extremes in combination, from fixed seeds."""

import math

from tests.sweeps.random_configs import log_uniform, random_mechanism

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
COUNTS = (2, 3, 20, 100, 1000, 12345, 10**6, 10**9, 10**12)


def heavy_count(rng):
    count = int(rng.choice(COUNTS))
    return {"min": max(1, count // int(rng.choice([2, 7, 100]))), "max": count} if rng.random() < 0.15 else count


def heavy_scheme(rng, count):
    smallest = count["min"] if isinstance(count, dict) else count
    kind = str(rng.choice(["with-replacement", "fixed", "poisson", "all", "shuffle"], p=[0.4, 0.25, 0.2, 0.08, 0.07]))
    if kind == "all":
        return {"scheme": "all"}
    if kind == "poisson":
        return {"scheme": "poisson", "rate": log_uniform(rng, 1e-9, 1.0)}
    size = round(smallest ** rng.uniform(0, 1)) if rng.random() < 0.6 else smallest // 2
    if kind == "with-replacement" and rng.random() < 0.2:
        size = smallest * int(rng.choice([1, 3, 100]))
    return {"scheme": kind, "size": max(1, size)}


def heavy_mechanism(rng, names):
    if rng.random() < 0.7:
        found = {
            "type": "gaussian",
            "noise_multiplier": log_uniform(rng, *[(1e-5, 0.3), (0.3, 30), (30, 1e6)][rng.integers(3)]),
        }
        if len(names) > 1 and rng.random() < 0.4:
            found["clip"] = str(rng.choice([*names, "batch"]))
        return found
    return random_mechanism(rng, names)


def heavy_config(rng):
    """One config, as a dictionary."""
    depth = int(rng.choice([1, 2, 3, 6, 8], p=[0.3, 0.25, 0.2, 0.15, 0.1]))
    names = NAMES[:depth]
    counts = [heavy_count(rng) for _ in names]
    counts[0] = counts[0]["max"] if isinstance(counts[0], dict) else counts[0]
    held = rng.random() < 0.15
    phases = []
    number = int(rng.choice([1, 2, 8, 50], p=[0.6, 0.15, 0.1, 0.15]))
    for place in range(number):
        if not place or number == 50 or rng.random() < 0.7:
            schemes = {name: heavy_scheme(rng, count) for name, count in zip(names, counts, strict=True)}
            if held and depth > 1:
                schemes[names[0]]["redraw_every"] = int(rng.choice([2, 60, 10**4]))
            mechanism = heavy_mechanism(rng, names)
        steps = int(math.exp(rng.uniform(0, math.log(10 ** rng.choice([2, 6, 15])))))
        phases.append({"name": f"p{place}", "sampling": schemes, "mechanism": mechanism, "training": {"steps": steps}})
    privacy = {
        "unit": str(rng.choice(names)),
        "adjacency": str(rng.choice(["add-remove", "replace-one", "zero-out"])),
        "delta": log_uniform(rng, *[(1e-3, 0.9), (1e-12, 1e-5), (1e-300, 1e-30)][rng.integers(3)]),
    }
    if rng.random() < 0.35:
        privacy["group_size"] = int(rng.choice([2, 4, 5, 8, 12, 100, 10**4]))
    data = {"levels": [{"name": n, "count": c} for n, c in zip(names, counts, strict=True)]}
    return {"version": 1, "data": data, "privacy": privacy, "phases": phases}
