"""`dpcalc sweep`: every point is the config with those values in it; tables, maps, CSV, JSON and pictures of them."""

import csv
import io
import json
import math
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dpcalc.guarantee import Kind
from dpcalc.sweep import Outcome
from tests.cli.running import environment
from tests.cli.solving import FLAT

SIGMA, STEPS = "mechanism.noise_multiplier", "training.steps"
OVER = ("--over", f"{SIGMA}=1.1,2", "--over", f"{STEPS}=100:500:2")
GRID = ("--over", f"{SIGMA}=0.5,1", "--over", f"{STEPS}=10,20,30")
PREPARED = {
    ("0.5", "10"): {"epsilon": 1.23456},
    ("0.5", "20"): {"epsilon": 1.9999, "kind": Kind.UPPER},
    ("0.5", "30"): {"epsilon": 10.0},
    ("1", "10"): {"epsilon": 0.1},
    ("1", "20"): {"epsilon": math.inf, "kind": Kind.UPPER},
    ("1", "30"): {"error": "no \x1b verdict", "code": 3, "method": ""},
}


@pytest.fixture
def prepared(real, file, monkeypatch):
    """Sweep over points whose outcomes are prepared, by their values; `sizes` has the sizes of the tasks."""

    def swept(*words, outcomes=PREPARED):
        def task(_base, _keys, points):
            swept.sizes.append(len(points))
            made = outcomes if callable(outcomes) else outcomes.__getitem__
            common = {"method": "inversion", "budget": 2.0}
            return tuple(Outcome(values=values, **common | made(values)) for values in points)

        monkeypatch.setattr("dpcalc.sweep.chunk_outcomes", task)
        monkeypatch.setattr("dpcalc.sweep.processes", lambda task, tasks, **_: enumerate(map(task, tasks)))
        return real("sweep", str(file()), *words)

    swept.sizes = []
    return swept


@pytest.fixture
def terminal(monkeypatch):
    def of(width=80, *, styled=False):
        for name, value in {"on_terminal": True, "width": width, "has_styles": styled}.items():
            monkeypatch.setattr(f"dpcalc.cli.explore.{name}", lambda value=value: value)

    return of


def rows(ended):
    return list(csv.DictReader(io.StringIO(ended.out)))


def points(ended):
    return json.loads(ended.out, parse_constant=pytest.fail)["points"]


# The points


@pytest.mark.heavy
def test_points_are_configs_the_last_axis_fastest_in_every_form(real, file):
    path = str(file())
    ended = real("sweep", path, *OVER, "--csv")
    told = "note: 4 points, 4 by estimate, 0 certified, 4 within the budget, 0 over it\n"
    assert (ended.code, ended.err) == (0, told)
    found = points(real("sweep", path, *OVER, "--json"))
    assert [repr(one["epsilon"]) for one in found] == [row["epsilon"] for row in rows(ended)]
    assert [tuple(one["values"].values()) for one in found] == [(1.1, 100), (1.1, 500), (2, 100), (2, 500)]
    for one in found:
        words = (word for key, value in one["values"].items() for word in ("--set", f"{key}={value:g}"))
        assert one["epsilon"] == pytest.approx(float(real("epsilon", path, *words, "-q").out), rel=5e-5)


def test_what_is_near_the_budget_or_no_estimate_is_certified(real, file):
    path = str(file(FLAT.replace("epsilon: 1.5", "epsilon: 1.08")))
    exact = json.loads(real("epsilon", path, "--json").out)["guarantee"]["epsilon"]
    near, far = points(real("sweep", path, "--over", f"{SIGMA}=1.1,1.2", "--json"))
    assert (near["kind"], near["method"], near["budget"], near["epsilon"]) == ("upper", "pld", 1.08, exact)
    assert near["fits"] is (exact <= 1.08)
    assert (far["kind"], far["method"], far["fits"]) == ("estimate", "inversion", True)
    (by_rdp,) = points(real("sweep", path, "--over", "accounting.method=rdp", "--json"))
    assert (by_rdp["kind"], by_rdp["method"]) == ("upper", "rdp")
    (without,) = points(real("sweep", path, "--over", f"{SIGMA}=0", "--json"))
    assert (without["epsilon"], without["finite"], without["kind"], without["fits"]) == (None, False, "upper", False)


def test_a_point_without_an_answer_stops_no_other(real, file):
    ended = real("sweep", str(file()), "--over", "sampling.rate=0.01,2")
    assert (ended.code, "1 without an answer" in ended.err, len(ended.out.splitlines())) == (2, True, 3)


def test_standard_input_and_flags_alone(real, file, monkeypatch):
    told = real("sweep", str(file()), *OVER, "--csv").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FLAT.encode()), encoding="utf-8"))
    assert real("sweep", "-", *OVER, "--csv").out == told
    alone = real("sweep", "--no-config", "--sample-rate", "0.01", "--delta", "1e-5", *OVER, "--csv")
    assert [row["epsilon"] for row in rows(alone)] == [row["epsilon"] for row in csv.DictReader(io.StringIO(told))]
    lacking = real("sweep", "--no-config", "--delta", "1e-5", *OVER)
    assert (lacking.code, "no config" in lacking.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("training.steps=1,2", [1, 2]),
        (f"{SIGMA}=0.5:2:4", [0.5, 1, 1.5, 2]),
        (f"{SIGMA}=1e-3:10:5:log", [1e-3, 0.01, 0.1, 1, 10]),
        ("training.steps=1:10:4:log", [1, 2, 5, 10]),
        ("data.levels[0].count=10:11:5", [10, 11]),
        (f"{SIGMA}=3:9:1", [3]),
        ("privacy.adjacency=add-remove, zero-out", ["add-remove", "zero-out"]),
    ],
)
def test_axes(prepared, text, values):
    ended = prepared("--over", text, "--json", outcomes=lambda _: {"epsilon": 1.0})
    assert json.loads(ended.out)["over"] == [{"key": text.partition("=")[0], "values": values}]


# Where they are computed


def test_a_pool_that_loses_a_chunk_loses_its_points_only(real, file, monkeypatch):
    def forgetful(function, chunks):
        return enumerate([ChildProcessError("it died"), *map(function, chunks[1:])])

    monkeypatch.setattr("dpcalc.sweep.in_process", forgetful)
    ended = real("sweep", str(file()), "--over", "training.steps=100,101,102", "--json")
    assert (ended.code, [one["error"] for one in points(ended)]) == (3, ["it died", None, None])


@pytest.mark.heavy
@pytest.mark.parametrize(("count", "largest"), [(100, 1), (1_000, 5), (20_000, 50)])
def test_large_grids_are_answered_in_chunks_of_limited_size(prepared, count, largest):
    ended = prepared("--over", f"training.steps=1:{count}:{count}", "--csv", outcomes=lambda _: {"epsilon": 1.0})
    assert (ended.code, sum(prepared.sizes), max(prepared.sizes)) == (0, count, largest)


@pytest.mark.heavy
def test_processes_tell_the_same(real, file):
    some = points(real("sweep", str(file()), "--over", "training.steps=100,101", "--json"))
    many = points(real("sweep", str(file()), "--over", "training.steps=100:159:60", "--json", "--jobs", "2"))
    assert (len(many), many[:2]) == (60, some)


@pytest.mark.slow
def test_ten_thousand_flat_configs(real, file):
    axes = ("--over", f"{SIGMA}=0.6:4:100:log", "--over", "training.steps=100:20000:100:log")
    ended = real("sweep", str(file()), *axes, "--csv", "--jobs", "2")
    assert (ended.code, len(rows(ended))) == (0, 10_000)


@pytest.mark.slow
def test_a_dask_cluster(real, file):
    distributed = pytest.importorskip("distributed")
    told = real("sweep", str(file()), *OVER, "--csv").out
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        words = ("--executor", "dask", "--scheduler", cluster.scheduler_address)
        assert real("sweep", str(file()), *OVER, "--csv", *words).out == told
    assert real("sweep", str(file()), *OVER, "--csv", "--executor", "dask").out == told
    nobody = real("sweep", str(file()), *OVER, "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert (nobody.code, "expected a Dask cluster" in nobody.err) == (2, True)


def test_without_dask_the_way_out_is_told(real, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused = real("sweep", str(file()), *OVER, "--executor", "dask")
    assert (refused.code, "pip install distributed" in refused.err) == (2, True)


@pytest.mark.heavy
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="waits for the processes beside it")
@pytest.mark.usefixtures("children_hear_ctrl_c")
def test_ctrl_c_leaves_nothing_behind(file, tmp_path):
    words = ["sweep", str(file()), "--over", "training.steps=100:100000:5000", "--plot", "a.svg"]
    running = subprocess.Popen(
        [sys.executable, "-m", "dpcalc", *words],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    end = time.monotonic() + 60
    while not children.read_text(encoding="utf-8") and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    finished = len(out.splitlines()[1:])
    assert running.returncode == 130
    assert f"interrupted: {finished:,} of 5,000 points are finished" in err.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


@pytest.mark.parametrize("order", [(0, 1), (2, 0)])
def test_ctrl_c_keeps_what_is_finished_in_order(real, file, monkeypatch, tmp_path, order):
    def stopped(function, tasks):
        for number in order:
            yield number, function(tasks[number])
        raise KeyboardInterrupt

    monkeypatch.setattr("dpcalc.sweep.in_process", stopped)
    words = ("sweep", str(file()), "--over", "training.steps=100,200,300", "--plot", "a.svg")
    kept = [str(100 * (number + 1)) for number in sorted(order)]
    table = real(*words)
    assert (table.code, [line.split()[0] for line in table.out.splitlines()]) == (130, ["training.steps", *kept])
    assert table.err.endswith("interrupted: 2 of 3 points are finished; a.svg was not written\n")
    assert not (tmp_path / "a.svg").exists()
    assert [row["training.steps"] for row in rows(real(*words, "--csv"))] == kept
    document = json.loads(real(*words, "--json").out)
    assert (document["complete"], len(document["points"])) == (False, 2)


@pytest.mark.parametrize("shown", [(), ("--format", "markdown")])
def test_where_a_secret_order_lowers_nothing(real, file, shown):
    path = str(file(FLAT.replace("scheme: poisson, rate: 0.01", "scheme: shuffle, size: 100, order: secret")))
    ended = real("sweep", path, "--set", "privacy.adjacency=zero-out", "--over", f"{SIGMA}=0.5,20", *shown)
    assert [line.rstrip(" |").endswith("as with order: any") for line in ended.out.splitlines()[-2:]] == [True, False]
    assert ended.err.endswith(", 1 where the secret order lowers nothing, as with order: any\n")


# What is shown


def test_a_table_of_every_kind_of_point(prepared):
    ended = prepared(*GRID)
    assert ended.out.splitlines() == [
        "mechanism.noise_multiplier  training.steps  epsilon      kind     method  fits",
        "                       0.5              10     1.24  estimate  inversion   yes",
        "                       0.5              20   1.9999     upper  inversion   yes",
        "                       0.5              30     10.0  estimate  inversion    no",
        "                         1              10    0.100  estimate  inversion   yes",
        "                         1              20      inf     upper  inversion    no",
        "                         1              30        -         -          -     -  no \\x1b verdict",
    ]
    told = "6 points, 3 by estimate, 2 certified, 3 within the budget, 2 over it, 1 without an answer"
    assert (ended.code, ended.err) == (3, f"note: {told}\n")


def test_csv_and_json_have_every_number_in_full(prepared):
    found = rows(prepared(*GRID, "--csv"))
    assert [row["epsilon"] for row in found] == ["1.23456", "1.9999", "10.0", "0.1", "inf", ""]
    assert [row["kind"] for row in found] == ["estimate", "upper", "estimate", "estimate", "upper", ""]
    document = json.loads(prepared(*GRID, "--json").out, parse_constant=pytest.fail)
    assert document["complete"] is True
    assert document["points"][1]["values"] == {SIGMA: 0.5, STEPS: 20.0}
    told = [(one["epsilon"], one["finite"], one["fits"]) for one in document["points"]]
    numbers = [(1.23456, True, True), (1.9999, True, True), (10.0, True, False), (0.1, True, True)]
    assert told == [*numbers, (None, False, False), (None, None, None)]


def test_words_of_csv_never_begin_a_formula(prepared):
    outcomes = lambda _: {"epsilon": 1.0, "error": "=x"}  # noqa: E731
    found = rows(prepared("--over", "name==1+1,@SUM(A1),plain,-3", "--csv", outcomes=outcomes))
    assert [row["name"] for row in found] == ["'=1+1", "'@SUM(A1)", "plain", "-3"]
    assert {row["error"] for row in found} == {"'=x"}


def test_a_map_for_people(prepared, terminal):
    terminal()
    shown = prepared(*GRID).out.splitlines()
    assert shown[:5] == [
        "epsilon: mechanism.noise_multiplier (down), training.steps (across)",
        "       10    20   30",
        "0.5   1.3   2.0  10*",
        "  1  0.10  inf*    -",
        "* over the budget",
    ]
    assert shown[5].startswith("clinic: unit example; add-remove; delta 1e-05; 10 of 1,000 (example)")
    terminal(styled=True)
    styled = prepared(*GRID).out
    cells = [(colour, text.strip()) for colour, text in re.findall(r"\x1b\[(3\d)m([^\x1b]+)", styled)]
    red, green = "31", "32"
    assert cells == [(green, "1.3"), (green, "2.0"), (red, "10*"), (green, "0.10"), (red, "inf*")]


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 40])
def test_a_large_map_is_thinned_to_the_terminal(prepared, terminal, width):
    terminal(width)
    axes = ("--over", "training.steps=1:200:200", "--over", "data.examples=1001:1200:200")
    text = prepared(*axes, outcomes=lambda values: {"epsilon": sum(map(float, values)) / 7}).out
    lines = text[text.index("  1,001") :].splitlines()
    columns = lines[0].split()
    assert (columns[0], columns[-1], len(columns) >= width / 10) == ("1,001", "1,200", True)
    assert max(map(len, lines[:41])) <= width
    assert [lines[at].split()[0] for at in (1, 40)] == ["1", "200"]
    assert f"shown: 40 of 200 rows, {len(columns)} of 200 columns" in " ".join(lines)


def test_one_key_is_a_line_and_words_are_a_table(prepared, terminal):
    terminal()
    line = {(steps,): PREPARED["0.5", steps] for steps in ("10", "20", "30")}
    shown = prepared("--over", f"{STEPS}=10,20,30", outcomes=line).out
    assert shown.startswith("epsilon over training.steps\n")
    assert all(word in shown for word in ("inversion: estimate", "certified: upper bound", "budget 2.0"))
    words = prepared("--over", "privacy.adjacency=zero-out,replace-one", outcomes=lambda _: {"epsilon": 1.0}).out
    assert [line.split()[0] for line in words.splitlines()] == ["privacy.adjacency", "zero-out", "replace-one"]


def texts(path):
    root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314  our own, of a moment ago
    return {"".join(one.itertext()).strip() for one in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.heavy
def test_a_picture_tells_its_numbers_and_what_all_cells_have_in_common(prepared, tmp_path):
    ended = prepared(*GRID, "--plot", "map.svg")
    assert ended.err.endswith("note: wrote map.svg\n")
    found = texts(tmp_path / "map.svg")
    assert {"1.24", "2.00", "10.0", "0.100", STEPS, SIGMA, "Epsilon; line: budget 2.0"} <= found
    assert any(text.startswith("clinic: unit example") for text in found)
    assert prepared(*GRID, "--plot", "map.png").code == 3
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("fits", "edges"),
    [
        ([[True, True, False], [True, None, False]], [[(1.5, -0.5), (1.5, 0.5)]]),
        ([[True, False, False], [False, False, False]], [[(0.5, -0.5), (0.5, 0.5)], [(-0.5, 0.5), (0.5, 0.5)]]),
        ([[True, True, True], [True, True, True]], []),
    ],
)
def test_the_line_of_the_budget_runs_between_cells(prepared, monkeypatch, fits, edges):
    """Cells have whole coordinates; a line at halves never crosses the number in the middle of one."""
    drawn = []
    collections = pytest.importorskip("matplotlib.collections")
    whole = collections.LineCollection
    monkeypatch.setattr(
        collections, "LineCollection", lambda edges, **more: drawn.append(edges) or whole(edges, **more)
    )
    epsilons = {True: 1.0, False: 3.0, None: None}
    outcomes = {
        (sigma, steps): {"epsilon": epsilons[fit]}
        for sigma, row in zip(("0.5", "1"), fits, strict=True)
        for steps, fit in zip(("10", "20", "30"), row, strict=True)
    }
    prepared(*GRID, "--plot", "map.svg", outcomes=outcomes)
    assert drawn[-1] == edges
