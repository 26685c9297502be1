"""Figures of papers that dpcalc grew from, and of the docs: python sample_configs/figures/draw.py FOLDER [--points N].

strong_composition   Abadi et al. 2016 (1607.00133v2), figure 2: epsilon over epochs, q = 0.01, sigma = 4, delta = 1e-5;
                     as a command: dpcalc curve epochs abadi_slide.yaml --range 1:400:25
                         --method strong-composition --method moments --method pld --plot f.svg
group_steps          Sommer 2021, "Group Privacy for Deep Learning with Differential Privacy": epsilon over compositions
                     for several k, sigma = 1, beside the published mixture, which leaves out who is drawn instead
group_size           the same over k, after 2^14 compositions, for several sigma
rdp_gaussian         Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), figure 1: Renyi divergence of a sampled step with
rdp_laplace          Gaussian noise (sigma = 5) and Laplace noise (b = 0.5), between the general bounds
composed_gaussian    the same source: epsilon over compositions by the general bound and by advanced
composed_laplace     composition, beside what is certified: sigma = 5 and 0.5, b = 2 and 0.5
loaders              epsilon of one run under the loaders of docs/samplers.md: the picture of that page
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpcalc.charts import LOG, Axis, Chart, CurveRequest, chart_picture, curve
from dpcalc.config.load import load
from dpcalc.planner.plan import Plan

SAMPLES = Path(__file__).parents[1]


def sample(name: str, *assignments: str) -> Plan:
    """The plan of a sample config without its budget."""
    plan = load(str(SAMPLES / f"{name}.yaml"), assignments=assignments).plan
    return replace(plan, budget=None)


def strong_composition(points: int) -> Chart:
    """Epsilon over epochs."""
    methods = ("strong-composition", "moments", "pld")
    grid = tuple(map(float, np.linspace(1, 400, points)))
    chart = curve("epochs", CurveRequest(plans=(("abadi", sample("abadi_slide")),), methods=methods, grid=grid))
    return replace(chart, y=Axis(name="epsilon"))


def grouped(size: int, noise: float, steps: int) -> Plan:
    """Some of 60,000 images together, batches of 256 of a fixed size."""
    fixed = ("sampling.scheme=fixed", "training.batch_size=256", "privacy.adjacency=add-remove")
    changed = (f"privacy.group_size={size}", f"mechanism.noise_multiplier={noise}", f"training.steps={steps}")
    return sample("mnist_group", *fixed, *changed)


def group_steps(points: int) -> Chart:
    """Epsilon over compositions for groups of k."""
    grid = tuple(float(round(steps)) for steps in np.geomspace(1, 2**14, points))
    plans = tuple((f"k = {size}", grouped(size, 1.0, 1)) for size in (2, 3, 5))
    chart = curve("steps", CurveRequest(plans=plans, methods=("pld", "group-mixture"), grid=grid))
    return replace(chart, x=replace(chart.x, scale=LOG), y=replace(chart.y, scale=LOG))


def group_size(points: int) -> Chart:
    """Epsilon over the size of the group for several noises."""
    grid = tuple(float(size) for size in range(1, min(points, 16) + 1))
    plans = tuple((f"sigma = {noise:g}", grouped(1, noise, 2**14)) for noise in (2.0, 4.0, 8.0))
    return replace(curve("group", CurveRequest(plans=plans, grid=grid)), y=Axis(name="epsilon", scale=LOG))


GAUSSIAN, LAPLACE = ("mechanism.type=gaussian",), ("mechanism.type=laplace",)


def noisy(kind: tuple[str, ...], noise: float, *assignments: str) -> Plan:
    """One record in a hundred in every step, with some noise."""
    return sample("abadi_slide", *kind, f"mechanism.noise_multiplier={noise}", *assignments)


def rdp_gaussian(points: int) -> Chart:
    """Renyi divergence of one sampled step with Gaussian noise."""
    plan = noisy(GAUSSIAN, 5, "training.steps=1")
    return curve("rdp", CurveRequest(plans=(("gaussian", plan),), grid=orders(points)))


def rdp_laplace(points: int) -> Chart:
    """The same with Laplace noise, whose divergence is bounded."""
    plan = noisy(LAPLACE, 0.5, "training.steps=1")
    return curve("rdp", CurveRequest(plans=(("laplace", plan),), grid=orders(points)))


def composed_gaussian(points: int) -> Chart:
    """Epsilon over compositions with little and with much Gaussian noise."""
    return composed(points, {f"sigma = {noise:g}": noisy(GAUSSIAN, noise) for noise in (5, 0.5)})


def composed_laplace(points: int) -> Chart:
    """The same with Laplace noise."""
    return composed(points, {f"b = {noise:g}": noisy(LAPLACE, noise) for noise in (2, 0.5)})


def loaders(points: int) -> Chart:
    """Epsilon over epochs for one run under several loaders."""
    draws = {
        "shuffle 256": "{scheme: shuffle, size: 256}",
        "held bins, 235": "{scheme: balls-in-bins, bins: 235, assignment: held}",
        "fixed 256": "{scheme: fixed, size: 256}",
        "Poisson, at most 300": "{scheme: poisson, expected: 256, max_batch_size: 300}",
        "Poisson 256": "{scheme: poisson, expected: 256}",
        "balls in bins, 235": "{scheme: balls-in-bins, bins: 235}",
    }
    return by_draw(points, draws, "add-remove", noise=1.1)


def secret_order(points: int) -> Chart:
    """The same with much noise, where a shuffled loader gains by an order that nobody knows."""
    draws = {
        "shuffle 256": "{scheme: shuffle, size: 256}",
        "shuffle 256, secret order": "{scheme: shuffle, size: 256, order: secret}",
        "Poisson 256": "{scheme: poisson, expected: 256}",
    }
    return by_draw(points, draws, "replace-one", noise=10)


def by_draw(points: int, draws: dict[str, str], adjacency: str, *, noise: float) -> Chart:
    """Epsilon over epochs of the MNIST run under several draws."""
    grid = tuple(map(float, dict.fromkeys(np.linspace(1, 60, points).round())))
    run = (f"privacy.adjacency={adjacency}", f"mechanism.noise_multiplier={noise}")
    charts = [
        curve(
            "epochs",
            CurveRequest(plans=((name, sample("mnist_dpsgd", f"sampling={draw}", *run)),), methods=("pld",), grid=grid),
        )
        for name, draw in draws.items()
    ]
    lines = tuple(
        replace(series, name=name) for name, chart in zip(draws, charts, strict=True) for series in chart.series
    )
    shared = f"MNIST run: unit one of 60,000 images, {adjacency}; noise multiplier {noise}"
    return replace(charts[0], subtitle=shared, series=lines, y=Axis(name="epsilon", scale=LOG))


def composed(points: int, plans: dict[str, Plan]) -> Chart:
    """Epsilon by the general bound, by advanced composition and certified."""
    grid = tuple(float(round(steps)) for steps in np.geomspace(1, 1e5, points))
    methods = ("general-rdp", "advanced", "pld")
    chart = curve("steps", CurveRequest(plans=tuple(plans.items()), methods=methods, grid=grid))
    return replace(chart, x=replace(chart.x, scale=LOG), y=replace(chart.y, scale=LOG))


def orders(points: int) -> tuple[float, ...]:
    """Whole orders from 2 to 200."""
    return tuple(sorted({float(round(order)) for order in np.geomspace(2, 200, points)}))


FIGURES = (
    strong_composition,
    group_steps,
    group_size,
    rdp_gaussian,
    rdp_laplace,
    composed_gaussian,
    composed_laplace,
    loaders,
    secret_order,
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--points", type=int, default=16, help="numbers in each line")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        path = chosen.folder / f"{figure.__name__}.svg"
        path.write_bytes(chart_picture(figure(chosen.points), "svg"))
        print(path)
