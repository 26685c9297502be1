"""The script that recomputes published figures."""

import math
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "sample_configs" / "figures" / "draw.py"


@pytest.fixture(scope="module")
def figures():
    return runpy.run_path(str(SCRIPT))


def series(chart):
    return {one.name: dict(zip(one.xs, one.ys, strict=True)) for one in chart.series}


def test_strong_composition_at_the_end_of_the_axis(figures):
    """400 epochs of q = 0.01 are 40,000 steps; delta is split by trying out many (Dwork and Roth, 3.20)."""
    found = series(figures["strong_composition"](2))
    splits = []
    for share in (part / 2000 for part in range(1, 2000)):
        step = 0.01 * math.sqrt(2 * math.log(1.25 * 400 / (1e-5 * (1 - share)))) / 4
        splits.append(math.sqrt(2 * 40_000 * math.log(1 / (1e-5 * share))) * step + 40_000 * step**2)
    assert found["strong-composition"][400] == pytest.approx(min(splits), rel=1e-5)
    assert found["pld"][400] < found["moments"][400] < found["strong-composition"][400]


@pytest.mark.heavy
def test_groups_cost_more_than_published(figures):
    for name, ys in (found := series(figures["group_steps"](2))).items():
        if name.endswith("pld"):
            published = found[name.replace("pld", "group-mixture")]
            assert all(ys[steps] > published[steps] for steps in ys)
    by_noise = series(figures["group_size"](2))
    assert all(ys[2.0] > 2 * ys[1.0] for ys in by_noise.values())


@pytest.mark.parametrize("name", ["rdp_gaussian", "rdp_laplace"])
def test_divergences_lie_between_the_bounds(figures, name):
    found = series(figures[name](4))
    for order, value in found["rdp"].items():
        assert found["general lower bound"][order] <= value * (1 + 1e-5)
        assert value <= found["general upper bound"][order] * (1 + 1e-5)
    assert 2 in found["rdp"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["composed_gaussian", "composed_laplace"])
def test_general_bounds_compose_better_than_advanced_composition(figures, name):
    found = series(figures[name](2))
    for label in {one.partition(",")[0] for one in found}:
        general, advanced, own = (found[f"{label}, {method}"] for method in ("general-rdp", "advanced", "pld"))
        assert own[1e5] < general[1e5] < advanced[1e5]
        assert own[1] < advanced[1]
