"""Charts as characters and pictures, told from the data in them; as tables, CSV and JSON: golden files."""

import csv
import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from base64 import b64decode
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import dpcalc
from dpcalc.charts import chart_text
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind

RUN = {
    "version": 1,
    "data": {"examples": 1000},
    "sampling": {"scheme": "all"},
    "mechanism": {"noise_multiplier": 5},
    "training": {"steps": 2},
    "privacy": {"adjacency": "add-remove", "delta": 1e-5},
    "budget": {"epsilon": 3},
}
DRAWN = dpcalc.curve(RUN, "steps", grid=(1, 2))
(BUDGET,) = DRAWN.limits


def line(name, xs, ys, kind=Kind.UPPER, **more):
    return replace(DRAWN.series[0], **{"name": name, "xs": xs, "ys": ys, "kind": kind, "method": ""} | more)


def chart(*series, scales=("linear", "linear"), limits=(BUDGET,), names=("epochs", "epsilon")):
    x, y = (
        replace(axis, name=name, scale=scale, title="")
        for axis, name, scale in zip((DRAWN.x, DRAWN.y), names, scales, strict=True)
    )
    title, subtitle = f"{names[1]} over {names[0]}, delta = 1e-05", "the run: unit example"
    return replace(DRAWN, title=title, subtitle=subtitle, x=x, y=y, series=series, limits=limits)


CHART = chart(
    line("strong-composition", (1.0, 50.0, 100.0), (0.9, 6.04, 9.3381), Kind.AS_PUBLISHED),
    line("pld", (1.0, 50.0, 75.0, 100.0), (0.1, 0.6412, None, 0.946867)),
    line("clinic $x$", (1.0, 100.0), (math.inf, 2.0), Kind.ESTIMATE),
)
LOGARITHMIC = chart(
    line("delta", (0.5, 1.0, 4.0), (1e-2, 1e-5, 0.0)),
    scales=("log", "log"),
    limits=(replace(BUDGET, axis="x"),),
    names=("epsilon", "delta"),
)
ROWS = yaml.safe_load(Path(__file__).with_name("charts.yaml").read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("chart", [CHART, LOGARITHMIC])
def test_a_chart_of_characters_fits_the_terminal(chart, width):
    lines = chart_text(chart, width=width).splitlines()
    assert max(map(len, lines)) <= max(60, width)
    assert all(line.isprintable() for line in lines)
    legend = [line for line in lines if line.startswith(tuple("ox+:- "[:5]))]
    assert len(legend) >= len(chart.series)


def test_colours_change_no_character():
    styled = chart_text(CHART, width=80, styled=True)
    assert re.sub(r"\x1b\[\d+m", "", styled) == chart_text(CHART, width=80)
    assert {"\x1b[34mo", "\x1b[33mx"} <= set(re.findall(r"\x1b\[\d+m[ox]", styled))


NUMBERS = st.one_of(st.none(), st.just(math.inf), st.floats(-1e250, 1e250))


@pytest.mark.heavy
@given(
    points=st.lists(st.tuples(st.floats(-1e250, 1e250), NUMBERS), max_size=12, unique_by=lambda point: point[0]),
    scales=st.tuples(st.sampled_from(["linear", "log"]), st.sampled_from(["linear", "log"])),
    limit=st.floats(-1e250, 1e250),
)
def test_no_data_break_a_chart(points, scales, limit):
    xs, ys = zip(*sorted(points, key=lambda point: point[0]), strict=True) if points else ((), ())
    limits = (replace(BUDGET, value=limit), replace(BUDGET, value=limit, axis="x"))
    drawn = chart(line("a\x1b[31m\nb", xs, ys), scales=scales, limits=limits)
    lines = chart_text(drawn, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(one.isprintable() for one in lines)


def svg(chart):
    return ET.fromstring(chart.picture("svg"))  # noqa: S314  our own, of a moment ago


def drawn(root, name):
    """The corners of a line in a picture."""
    (group,) = (one for one in root.iter(f"{SVG}g") if one.get("id") == name)
    path = group.find(f"{SVG}path").get("d")
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML] (\S+) (\S+)", path)]


@pytest.mark.parametrize(("chart", "scale"), [(CHART, float), (LOGARITHMIC, math.log)])
def test_the_data_are_in_the_picture(chart, scale):
    root, places = svg(chart), []
    for number, one in enumerate(chart.series):
        shown = [(x, y) for x, y in zip(one.xs, one.ys, strict=True) if y is not None and math.isfinite(y)]
        if scale is math.log:
            shown = [(x, y) for x, y in shown if y > 0]
        corners = drawn(root, f"series-{number}")[: len(shown)]
        places += [((scale(x), scale(y)), corner) for (x, y), corner in zip(shown, corners, strict=True)]
    for axis in (0, 1):
        (low, at_low), (high, at_high) = (
            pick(((data[axis], corner[axis]) for data, corner in places)) for pick in (min, max)
        )
        for data, corner in places:
            expected = at_low + (data[axis] - low) / (high - low) * (at_high - at_low)
            assert corner[axis] == pytest.approx(expected, abs=0.01)


def test_names_and_limits_are_in_the_picture_as_text():
    root = svg(CHART)
    texts = {"".join(one.itertext()).strip() for one in root.iter(f"{SVG}text")}
    assert {"Epsilon over epochs, delta = 1e-05", "epochs", "pld: upper bound", "budget 3.0"} <= texts
    assert {"clinic $x$: estimate", "published, not proved here", "the run: unit example"} <= texts
    (first, second, *_) = drawn(root, "limit-0")
    assert first[1] == second[1]


def texts_of(root):
    """Every text of a picture."""
    return ["".join(one.itertext()).strip() for one in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", ROWS)
def test_what_a_chart_shows(name):
    row = ROWS[name]
    lines = [line(kind=Kind(each.pop("kind", "upper")), **each) for each in deepcopy(row["lines"])]
    made = chart(*lines, limits=() if "without_limits" in row else (BUDGET,))
    root = svg(made)
    ids = {one.get("id") for one in root.iter()}

    def style(number):
        (path,) = (one.find(f"{SVG}path") for one in root.iter(f"{SVG}g") if one.get("id") == f"series-{number}")
        return dict(re.findall(r"([\w-]+): ([^;]+)", path.get("style")))

    known = {"text": chart_text(made, width=80), "ids": ids, "texts": texts_of(root), "style": style}
    for claim in row["claims"]:
        assert eval(claim, known), claim  # noqa: S307  our own


def test_equal_budgets_are_one_line():
    limits = (replace(BUDGET, name="a, budget"), replace(BUDGET, name="b, budget"))
    assert {one.get("id") for one in svg(replace(CHART, limits=limits)).iter()} & {"limit-0", "limit-1"} == {"limit-0"}


def test_a_picture_follows_the_page_into_the_dark():
    assert b"@media (prefers-color-scheme: dark)" in CHART.picture()


def test_many_labels_make_the_picture_higher_and_do_not_touch():
    entries = tuple(
        replace(CHART.series[1], name=f"a config with a name of its own, number {n}", ys=(0.0, 1.0, None, y))
        for n, y in enumerate([1.0, 1.01, 1.02, 1.0, 0.99, 5.0, 5.0, 0.0, 0.0, 0.0])
    )
    short, long = svg(CHART), svg(replace(CHART, series=entries))
    heights = [float(root.get("height").removesuffix("pt")) for root in (short, long)]
    assert heights[1] > heights[0] + 72
    places = [
        (float(re.search(r"translate\(\S+ (\S+)\)", text.get("transform"))[1]))
        for text in long.iter(f"{SVG}text")
        if re.match("a config|its own", "".join(text.itertext()))
    ]
    assert len(places) == 20
    assert min(abs(one - other) for n, one in enumerate(places) for other in places[:n]) > 8


def test_a_subtitle_is_wrapped_into_lines_of_like_length():
    words = (
        "clinic: unit example; add-remove; 32 of 1,200 (task), fixed size; then 5 of 20 (example), fixed size; "
        "gaussian, noise multiplier 6"
    )
    shown = [text for text in texts_of(svg(replace(CHART, subtitle=words))) if text in words and len(text) > 9]
    assert " ".join(shown) == words
    assert len(shown) == 2
    assert min(map(len, shown)) > 40


@pytest.mark.parametrize("ending", ["bmp", "", "SVG"])
def test_a_format_that_there_is_not_is_refused_in_one_sentence(ending):
    with pytest.raises(InputError, match=rf"format of a picture: expected one of svg, png, pdf, got '{ending}'"):
        CHART.picture(ending)


def test_a_notebook_shows_the_picture_and_the_table_or_the_table_alone(monkeypatch):
    image, table = CHART._repr_html_().split("<table>")
    (content,) = re.fullmatch(r'<img alt="chart" src="data:image/svg\+xml;base64,(.*)">', image).groups()
    assert b64decode(content) == CHART.picture()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert CHART._repr_html_() == f"<table>{table}"
    bounds = tuple(
        replace(CHART.series[1], name=name, kind=kind) for name, kind in (("pld", Kind.UPPER), ("lower", Kind.LOWER))
    )
    assert "<th>pld (upper)</th><th>lower</th>" in replace(CHART, series=bounds)._repr_html_()
    with pytest.raises(InputError, match="needs matplotlib, which is not installed; run `pip install matplotlib`"):
        CHART.picture("png")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("ending", "start"),
    [
        ("svg", b"<?xml"),
        *(pytest.param(*each, marks=pytest.mark.heavy) for each in (("png", b"\x89PNG"), ("pdf", b"%PDF"))),
    ],
)
def test_the_same_chart_gives_the_same_bytes(ending, start):
    picture = LOGARITHMIC.picture(ending)
    assert picture.startswith(start)
    assert picture == LOGARITHMIC.picture(ending)


FORMULAS = ("=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "=", "@", "-", "+", "-x")


def test_a_formula_in_a_cell_becomes_text(real, tmp_path):
    for number, name in enumerate((*FORMULAS, "a@b", "1=1")):
        (tmp_path / f"{number}.yaml").write_text(json.dumps(RUN | {"name": name}), encoding="utf-8")
    files = [f"{number}.yaml" for number in range(len(FORMULAS) + 2)]
    ended = real("curve", "steps", *files, "--range", "1", "--csv")
    assert ended.code == 0, ended.err
    header, row, *_ = csv.reader(ended.out.splitlines())
    cells = [cell for cell in header[1:] if "lower" not in cell]
    assert [cell[:1] for cell in cells] == ["'"] * len(FORMULAS) + ["a", "1"]
    assert all(cell.isprintable() for cell in header)
    assert all(float(number) >= 0 for number in row)
    (tmp_path / "a.yaml").write_text(json.dumps(RUN | {"name": "-1"}), encoding="utf-8")
    header, row = csv.reader(real("epsilon", "a.yaml", "--format", "csv").out.splitlines())
    assert dict(zip(header, row, strict=True))["name"] == "-1"
