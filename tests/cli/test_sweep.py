"""`dpcalc sweep`: where points are computed, what Ctrl-C keeps, and large maps; what it prints is in
`transcripts/sweep.txt`.
"""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcalc.sweep import Outcome
from tests.cli.running import environment

SIGMA, STEPS = "mechanism.noise_multiplier", "training.steps"
OVER = ("--over", f"{SIGMA}=1.1,2", "--over", f"{STEPS}=100:500:2")
GRID = ("--over", f"{SIGMA}=0.5,1", "--over", f"{STEPS}=10,20,30")


@pytest.fixture
def prepared(real, file, monkeypatch):
    """Sweep over points whose epsilons are prepared, by their values; `sizes` has the sizes of the tasks."""

    def swept(*words, epsilon):
        def task(_base, _keys, points):
            swept.sizes.append(len(points))
            common = {"method": "inversion", "budget": 2.0}
            return tuple(Outcome(values=values, **common, epsilon=epsilon(values)) for values in points)

        monkeypatch.setattr("dpcalc.sweep.chunk_outcomes", task)
        monkeypatch.setattr("dpcalc.sweep.processes", lambda task, tasks, **_: enumerate(map(task, tasks)))
        return real("sweep", str(file()), *words)

    swept.sizes = []
    return swept


def points(ended):
    return json.loads(ended.out, parse_constant=pytest.fail)["points"]


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
    ended = prepared("--over", f"training.steps=1:{count}:{count}", "--csv", epsilon=lambda _: 1.0)
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
    assert (ended.code, len(ended.out.splitlines())) == (0, 10_001)


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
    assert [line.split(",")[0] for line in real(*words, "--csv").out.splitlines()[1:]] == kept
    document = json.loads(real(*words, "--json").out)
    assert (document["complete"], len(document["points"])) == (False, 2)


# What is shown


@pytest.fixture
def terminal(monkeypatch):
    def of(width=80, *, styled=False):
        for name, value in {"on_terminal": True, "width": width, "has_styles": styled}.items():
            monkeypatch.setattr(f"dpcalc.cli.explore.{name}", lambda value=value: value)

    return of


def test_what_fits_and_what_does_not_differ_in_colour(prepared, terminal):
    terminal(styled=True)
    shown = prepared(*GRID, epsilon=lambda values: float(values[0]) * float(values[1]) / 10).out
    cells = [(colour, text.strip()) for colour, text in re.findall(r"\x1b\[(3\d)m([^\x1b]+)", shown)]
    red, green = "31", "32"
    expected = [(green, "0.5"), (green, "1.0"), (green, "1.5"), (green, "1.0"), (green, "2.0"), (red, "3.0*")]
    assert [(colour, f"{float(text.rstrip('*')):.1f}{'*' * text.endswith('*')}") for colour, text in cells] == expected


@pytest.mark.heavy
@pytest.mark.parametrize("width", [40])
def test_a_large_map_is_thinned_to_the_terminal(prepared, terminal, width):
    terminal(width)
    axes = ("--over", "training.steps=1:200:200", "--over", "data.examples=1001:1200:200")
    text = prepared(*axes, epsilon=lambda values: sum(map(float, values)) / 7).out
    lines = text[text.index("  1,001") :].splitlines()
    columns = lines[0].split()
    assert (columns[0], columns[-1], len(columns) >= width / 10) == ("1,001", "1,200", True)
    assert max(map(len, lines[:41])) <= width
    assert [lines[at].split()[0] for at in (1, 40)] == ["1", "200"]
    assert f"shown: 40 of 200 rows, {len(columns)} of 200 columns" in " ".join(lines)


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
    rows, columns = ("0.5", "1"), ("10", "20", "30")
    of = lambda values: epsilons[fits[rows.index(values[0])][columns.index(values[1])]]  # noqa: E731
    prepared(*GRID, "--plot", "map.svg", epsilon=of)
    assert drawn[-1] == edges
