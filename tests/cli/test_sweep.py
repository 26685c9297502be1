"""`dpcalc sweep`, with the real accounting."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcalc.cli import explore
from tests.cli.running import environment
from tests.cli.solving import FLAT

OVER = ("--over", "mechanism.noise_multiplier=1.1,2", "--over", "training.steps=100:500:2")


def test_all_forms_tell_the_same(real, file, monkeypatch):
    path = str(file())
    ended = real("sweep", path, *OVER, "--csv")
    assert (ended.code, ended.err) == (
        0,
        "note: 4 points, 4 by estimate, 0 certified, 4 within the budget, 0 over it\n",
    )
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert [row["training.steps"] for row in rows] == ["100", "500"] * 2
    points = json.loads(real("sweep", path, *OVER, "--json").out)["points"]
    assert [repr(one["epsilon"]) for one in points] == [row["epsilon"] for row in rows]
    assert float(real("epsilon", path, "-q").out) == pytest.approx(points[1]["epsilon"], rel=1e-4)
    table = real("sweep", path, *OVER).out.splitlines()
    assert table[0].split() == ["mechanism.noise_multiplier", "training.steps", "epsilon", "kind", "method", "fits"]
    monkeypatch.setattr(explore, "on_terminal", lambda: True)
    headline = "epsilon: mechanism.noise_multiplier (down), training.steps (across)"
    assert real("sweep", path, *OVER).out.splitlines()[0] == headline
    assert real("sweep", path, *OVER[:2]).out.startswith("epsilon over mechanism.noise_multiplier\n")


def test_standard_input_and_flags_alone(real, file, monkeypatch):
    told = real("sweep", str(file()), *OVER, "--csv").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FLAT.encode()), encoding="utf-8"))
    assert real("sweep", "-", *OVER, "--csv").out == told
    flags = ("--no-config", "--sample-rate", "0.01", "--delta", "1e-5")
    alone = list(csv.DictReader(io.StringIO(real("sweep", *flags, *OVER, "--csv").out)))
    assert [row["epsilon"] for row in alone] == [row["epsilon"] for row in csv.DictReader(io.StringIO(told))]
    lacking = real("sweep", "--no-config", "--delta", "1e-5", *OVER)
    assert lacking.code == 2
    assert "no config" in lacking.err


def test_a_point_without_an_answer_is_told(real, file):
    ended = real("sweep", str(file()), "--over", "sampling.rate=0.01,2")
    assert ended.code == 2
    assert "1 without an answer" in ended.err
    assert len(ended.out.splitlines()) == 3


def test_words_and_a_picture(real, file, monkeypatch, tmp_path):
    words = ("--over", "privacy.adjacency=zero-out,replace-one")
    points = json.loads(real("sweep", str(file()), *words, "--json").out)["points"]
    assert [one["values"]["privacy.adjacency"] for one in points] == ["zero-out", "replace-one"]
    assert points[0]["epsilon"] < points[1]["epsilon"]
    assert real("sweep", str(file()), *words, *OVER[:2], "--plot", "map.svg").err.endswith("note: wrote map.svg\n")
    assert "mechanism.noise_multiplier" in (tmp_path / "map.svg").read_text(encoding="utf-8")
    monkeypatch.setattr(explore, "on_terminal", lambda: True)
    out = real("sweep", str(file()), *words, *OVER[:2]).out
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["zero-out", "replace-one"]
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused = real("sweep", str(file()), *OVER, "--executor", "dask")
    assert (refused.code, "pip install distributed" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*OVER, "--over", "privacy.delta=1e-5,1e-6", "--plot", "a.svg"), "one or two --over, got 3"),
        ((*OVER, "--plot", "a.jpg"), "ending in svg, png, pdf"),
        ((*OVER, "--csv", "--json"), "leave out --csv or --json"),
        ((*OVER, "--scheduler", "tcp://127.0.0.1:1"), "--executor dask"),
        ((*OVER, "--executor", "magic"), "'magic' is not one of "),
        (("--over", "training.steps"), "KEY=A:B:N"),
        (("--over", "training.stpes=1"), "unknown key"),
        (("--over", "training.steps=5", "--set", "training.steps=6"), "is set by --set and by --over"),
        (("--over", "noise_multiplier=1,2"), "--over:1:1: error[DPC101]: unknown key `noise_multiplier`"),
        (("--over", "training.epochs=5", "--steps", "6"), "`--over training.epochs` and `--steps` both set the length"),
        (("--over", "privacy.adjacency=zero-out,replace-one", "--plot", "a.svg"), "expected numbers for a line"),
        ((), "--over"),
    ],
)
def test_what_is_no_question(real, file, words, message):
    ended = real("sweep", str(file()), *words)
    assert (ended.code, bool(ended.out)) == (2, "--json" in words)
    assert message in ended.err


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


def test_ctrl_c_keeps_what_is_finished(real, file, monkeypatch, tmp_path):
    def stopped(function, tasks):
        yield 1, function(tasks[1])
        yield 0, function(tasks[0])
        raise KeyboardInterrupt

    monkeypatch.setattr("dpcalc.sweep.points.in_process", stopped)
    words = ("sweep", str(file()), "--over", "training.steps=100,200,300", "--plot", "a.svg")
    table = real(*words)
    assert table.code == 130
    assert [line.split()[0] for line in table.out.splitlines()] == ["training.steps", "100", "200"]
    assert table.err.endswith("interrupted: 2 of 3 points are finished; a.svg was not written\n")
    assert not (tmp_path / "a.svg").exists()
    rows = list(csv.DictReader(io.StringIO(real(*words, "--csv").out)))
    assert [row["training.steps"] for row in rows] == ["100", "200"]
    document = json.loads(real(*words, "--json").out)
    assert (document["complete"], len(document["points"])) == (False, 2)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert json.loads(real(*words[:4], "--json").out)["complete"] is True


@pytest.mark.slow
def test_a_dask_cluster(real, file):
    distributed = pytest.importorskip("distributed")
    told = real("sweep", str(file()), *OVER, "--csv").out
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        words = ("--executor", "dask", "--scheduler", cluster.scheduler_address)
        assert real("sweep", str(file()), *OVER, "--csv", *words).out == told
    assert real("sweep", str(file()), *OVER, "--csv", "--executor", "dask").out == told
    nobody = real("sweep", str(file()), *OVER, "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert nobody.code == 2
    assert "expected a Dask cluster" in nobody.err
