"""Grids as tables, maps and pictures."""

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from dpcalc.guarantee import Kind
from dpcalc.sweep.points import GridAxis, Outcome
from dpcalc.sweep.view import (
    heat_picture,
    heat_text,
    summary,
    sweep_chart,
    sweep_csv,
    sweep_lines,
    sweep_output,
)

SIGMA = GridAxis(key="mechanism.noise_multiplier", values=("0.5", "1"))
STEPS = GridAxis(key="training.steps", values=("10", "20", "30"))


def point(values, epsilon, kind=Kind.ESTIMATE, budget=2.0):
    return Outcome(values=values, epsilon=epsilon, kind=kind, method="inversion", budget=budget)


POINTS = (
    point(("0.5", "10"), 1.23456),
    point(("0.5", "20"), 1.9999, Kind.UPPER),
    point(("0.5", "30"), 10.0),
    point(("1", "10"), 0.1),
    point(("1", "20"), math.inf, Kind.UPPER),
    Outcome(values=("1", "30"), error="no \x1b verdict", code=3),
)
LINE = tuple(one for one in POINTS if one.values[0] == "0.5")


def test_a_table():
    assert sweep_lines((SIGMA, STEPS), POINTS).splitlines() == [
        "mechanism.noise_multiplier  training.steps  epsilon      kind     method  fits",
        "                       0.5              10     1.24  estimate  inversion   yes",
        "                       0.5              20   1.9999     upper  inversion   yes",
        "                       0.5              30     10.0  estimate  inversion    no",
        "                         1              10    0.100  estimate  inversion   yes",
        "                         1              20      inf     upper  inversion    no",
        "                         1              30        -         -          -     -  no \\x1b verdict",
    ]


def test_a_map_names_its_run():
    text = heat_text((SIGMA, STEPS), POINTS, width=80, styled=False, subtitle="clinic: unit user; delta 1e-05")
    assert text.splitlines()[-1] == "clinic: unit user; delta 1e-05"


def test_csv_and_json_have_every_number_in_full():
    rows = list(csv.DictReader(io.StringIO(sweep_csv((SIGMA, STEPS), POINTS))))
    assert [row["epsilon"] for row in rows] == ["1.23456", "1.9999", "10.0", "0.1", "inf", ""]
    assert [row["kind"] for row in rows] == ["estimate", "upper", "estimate", "estimate", "upper", ""]
    document = json.loads(
        sweep_output((SIGMA, STEPS), POINTS, path="a.yaml", is_complete=True).json_text(), parse_constant=pytest.fail
    )
    assert document["points"][1]["values"] == {"mechanism.noise_multiplier": 0.5, "training.steps": 20.0}
    assert [one["epsilon"] for one in document["points"]] == [1.23456, 1.9999, 10.0, 0.1, None, None]
    assert [one["finite"] for one in document["points"]][4:] == [False, None]
    assert [one["fits"] for one in document["points"]] == [True, True, False, True, False, None]


def test_a_summary():
    told = summary(POINTS)
    assert told == "6 points, 3 by estimate, 2 certified, 3 within the budget, 2 over it, 1 without an answer"


def test_a_map_is_a_table_of_bounds():
    text = heat_text((SIGMA, STEPS), POINTS, width=80, styled=False)
    assert text.splitlines() == [
        "epsilon: mechanism.noise_multiplier (down), training.steps (across)",
        "       10    20   30",
        "0.5   1.3   2.0  10*",
        "  1  0.10  inf*    -",
        "* over the budget",
    ]
    styled = heat_text((SIGMA, STEPS), POINTS, width=80, styled=True)
    cells = [(colour, text.strip()) for colour, text in re.findall(r"\x1b\[(3\d)m([^\x1b]+)", styled)]
    red, green = "31", "32"
    assert cells == [(green, "1.3"), (green, "2.0"), (red, "10*"), (green, "0.10"), (red, "inf*")]
    assert re.sub(r"\x1b\[\d*m", "", styled) == text


def test_a_large_map_is_thinned_to_the_terminal():
    axes = tuple(GridAxis(key="abc"[at], values=tuple(map(str, range(200)))) for at in range(2))
    points = [point((str(i), str(j)), 1.0 + i + j) for i in range(200) for j in range(200)]
    for width, columns in ((80, 12), (40, 6)):
        lines = heat_text(axes, points, width=width, styled=False).splitlines()
        assert max(map(len, lines[1:41])) <= width
        assert f"shown: 40 of 200 rows, {columns} of 200 columns" in " ".join(lines)
        assert lines[1].split()[:: columns - 1] == ["0", "199"]
        assert [lines[at].split()[0] for at in (2, 41)] == ["0", "199"]


def test_one_axis_is_a_line():
    chart = sweep_chart(GridAxis(key="training.steps", values=STEPS.values), [
        Outcome(values=(one.values[1],), epsilon=one.epsilon, kind=one.kind, budget=2.0) for one in LINE
    ])  # fmt: skip
    assert [(one.name, one.ys) for one in chart.series] == [
        ("inversion", (1.23456, None, 10.0)),
        ("certified", (None, 1.9999, None)),
    ]
    assert chart.limits[0].value == 2.0


def test_a_picture_tells_its_numbers():
    root = ET.fromstring(heat_picture((SIGMA, STEPS), POINTS, "svg"))  # noqa: S314  our own, of a moment ago
    texts = ["".join(one.itertext()).strip() for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"1.24", "2.00", "10.0", "0.100", "training.steps", "mechanism.noise_multiplier"} <= set(texts)
    assert heat_picture((SIGMA, STEPS), POINTS, "png").startswith(b"\x89PNG")


def test_the_line_of_the_budget_runs_between_cells(monkeypatch):
    """Cells have whole coordinates; a line at halves never crosses the number in the middle of one."""
    drawn = []
    collections = pytest.importorskip("matplotlib.collections")
    whole = collections.LineCollection
    monkeypatch.setattr(
        collections, "LineCollection", lambda edges, **more: drawn.append(edges) or whole(edges, **more)
    )
    steps = ("10", "20", "30")
    for fits, edges in (
        ([[True, True, False], [True, None, False]], [[(1.5, -0.5), (1.5, 0.5)]]),
        ([[True, False, False], [False, False, False]], [[(0.5, -0.5), (0.5, 0.5)], [(-0.5, 0.5), (0.5, 0.5)]]),
        ([[True, True, True], [True, True, True]], []),
    ):
        epsilons = {True: 1.0, False: 3.0, None: None}
        points = [
            point((sigma, step), epsilons[fit])
            for sigma, row in zip(("0.5", "1"), fits, strict=True)
            for step, fit in zip(steps, row, strict=True)
        ]
        heat_picture((SIGMA, STEPS), points, "svg")
        assert drawn.pop() == edges


def test_a_picture_says_what_all_cells_have_in_common():
    root = ET.fromstring(heat_picture((SIGMA, STEPS), POINTS, "svg", subtitle="clinic: unit user"))  # noqa: S314
    texts = ["".join(one.itertext()).strip() for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"clinic: unit user", "epsilon; line: budget 2.0"} <= set(texts)
