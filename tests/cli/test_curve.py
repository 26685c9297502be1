"""`dpcalc curve`, with the real accounting."""

import csv
import io
import json
import re
import stat
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.solving import FLAT

STEPS = ("curve", "steps", "--range", "10,500")
NESTED = """\
version: 1
name: nested
data: {levels: [{name: task, count: 100}, {name: example, count: 20}]}
sampling: {task: {scheme: fixed, size: 4}, example: {scheme: fixed, size: 5}}
mechanism: {noise_multiplier: 6.0, clip: task}
training: {steps: 50}
privacy: {unit: example, adjacency: add-remove, delta: 1e-5}
"""
SHUFFLED = """\
version: 1
data: {examples: 2560}
sampling: {scheme: shuffle, size: 256, order: secret}
mechanism: {noise_multiplier: 1}
training: {epochs: 2}
privacy: {adjacency: zero-out, delta: 1e-5}
"""


def rows(ended):
    return list(csv.DictReader(io.StringIO(ended.out)))


def test_csv_json_and_table_tell_the_same(real, file):
    path = str(file())
    ended = real(*STEPS, path, "--csv", "--method", "pld", "--method", "inversion")
    assert (ended.code, ended.err) == (0, "")
    found = rows(ended)
    assert [row["steps"] for row in found] == ["10", "500"]
    document = json.loads(real(*STEPS, path, "--json", "--method", "pld", "--method", "inversion").out)
    pld, estimate = document["series"]
    assert [repr(one["y"]) for one in pld["points"]] == [row["pld (upper)"] for row in found]
    assert (pld["kind"], estimate["kind"]) == ("upper", "estimate")
    assert float(real("epsilon", path, "-q").out) == pytest.approx(pld["points"][1]["y"], rel=1e-5)
    assert document["limits"] == [{"name": "budget", "value": 1.5, "axis": "y"}]
    table = real(*STEPS, path).out.splitlines()
    assert table[0].split() == ["steps", "pld", "lower"]
    assert float(table[2].split()[1]) >= pld["points"][1]["y"]
    assert table[-1] == "budget: 1.5"


@pytest.mark.heavy
def test_several_configs_and_none(real, file, tmp_path):
    first, second = str(file()), tmp_path / "b.yaml"
    second.write_text(FLAT.replace("clinic", "other").replace("1.1", "2.2").replace("1.5", "3"), encoding="utf-8")
    head = real(*STEPS, first, str(second), "--csv").out.splitlines()[0]
    assert head == 'steps,clinic (upper),"clinic, lower (lower)",other (upper),"other, lower (lower)"'
    methods = ("--method", "inversion", "--method", "pld")
    both = json.loads(real("curve", "steps", "--range", "10,11", *methods, first, str(second), "--json").out)
    names = ["clinic, inversion", "clinic, pld", "other, inversion", "other, pld"]
    assert [one["name"] for one in both["series"]] == names
    assert [one["name"] for one in both["limits"]] == ["clinic, budget", "other, budget"]
    same = real(*STEPS, first, first.replace("run.yaml", "./run.yaml"), "--csv").out.splitlines()[0]
    assert same.count("run.yaml (upper)") == 2
    flags = ("--no-config", "--sample-rate", "0.01", "--noise-multiplier", "1.1", "--steps", "500", "--delta", "1e-5")
    told = real(*STEPS, *flags, "--csv")
    assert told.code == 0, told.err
    alone = rows(told)
    assert alone[1]["pld (upper)"] == rows(real(*STEPS, first, "--csv"))[1]["pld (upper)"]


@pytest.mark.heavy
def test_every_line_says_what_it_is_about_where_lines_differ(real, file, tmp_path):
    """The title once stated the first config's delta for all."""
    first, second = str(file()), tmp_path / "b.yaml"
    second.write_text(FLAT.replace("clinic", "other").replace("1e-5", "1e-8"), encoding="utf-8")
    head, *lines = real(*STEPS, first, str(second), "--csv").out.splitlines()
    bounds = ('"clinic{}, delta 1e-05 ({})"', '"other{}, delta 1e-08 ({})"')
    ends = (("", "upper"), (", lower", "lower"))
    assert head == ",".join(["steps", *(name.format(*end) for name in bounds for end in ends)])
    alone = real("epsilon", str(second), "--json")
    epsilon = json.loads(alone.out)["guarantee"]["epsilon"]
    assert lines[-1].split(",")[-2] == repr(epsilon)
    assert real(*STEPS, first, str(second), "--plot", "a.svg").code == 0
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">Epsilon over steps<" in picture
    assert ">clinic: upper bound, delta<" in picture
    assert ">1e-08, tight<" in picture
    document = json.loads(real(*STEPS, first, str(second), "--json").out)
    assert [one["delta"] for one in document["configs"]] == [1e-5, 1e-8]


@pytest.mark.heavy
def test_a_picture_beside_the_answer_names_its_run(real, file, tmp_path):
    for _ in range(2):  # once more over the old one
        ended = real(*STEPS, str(file()), "--plot", "a.svg")
        assert (ended.code, ended.err) == (0, "note: wrote a.svg\n")
    assert {path.name for path in tmp_path.iterdir()} == {"run.yaml", "a.svg"}
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert 'id="series-0"' in picture
    assert 'id="limit-0"' in picture
    assert ">Epsilon over steps, delta = 1e-05<" in picture
    assert re.search(">clinic: unit example; add-remove; .*Poisson; gaussian, noise multiplier 1.1<", picture)
    (tmp_path / "a.svg").write_text("mine", encoding="utf-8")
    (tmp_path / "a.svg").chmod(stat.S_IREAD)
    ended = real(*STEPS, str(file()), "--plot", "a.svg")
    assert (ended.code, ended.out, "read-only" in ended.err) == (2, "", True)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == "mine"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.heavy
def test_a_picture_of_a_few_runs_says_in_what_they_differ_and_has_a_band_for_each(real, file, tmp_path):
    names = [str(file())]
    for number, noise in enumerate(("2.2", "3.3", "4.4")):
        names.append(str(tmp_path / f"{number}.yaml"))
        Path(names[-1]).write_text(FLAT.replace("clinic", f"c{number}").replace("1.1", noise), encoding="utf-8")
    assert real(*STEPS, *names[:3], "--plot", "a.svg").code == 0
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">clinic: gaussian, noise multiplier 1.1<" in picture
    assert ">c1: gaussian, noise multiplier 3.3<" in picture
    assert 'id="band-' not in picture  # the ends are one line
    loose = [*names[:3], "--set", "sampling={scheme: shuffle, size: 10}"]
    assert real(*STEPS, *loose, "--plot", "b.svg").code == 0
    picture = (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert picture.count('id="band-') == 3
    assert real(*STEPS, *names, *loose[3:], "--plot", "c.svg").code == 0
    assert 'id="band-' not in (tmp_path / "c.svg").read_text(encoding="utf-8")


@pytest.mark.heavy
def test_the_rate_of_a_nested_draw_names_its_level(real, file, tmp_path):
    """Sizes were once the rates of the first config, rounded to 0."""
    (tmp_path / "b.yaml").write_text(NESTED, encoding="utf-8")
    ended = real("curve", "rate", str(file()), "b.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "expected configs drawn by the same quantity, got rate (clinic), size (nested)" in ended.err
    assert real("curve", "rate", "--method", "rdp", "b.yaml", "--plot", "a.svg").code == 0
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">Epsilon over size at level task, delta = 1e-05<" in picture
    assert ">size at level task<" in picture


def test_a_curve_over_sizes_leaves_out_those_that_are_refused(real, file):
    shuffled = FLAT.replace("1_000", "1001").replace("{scheme: poisson, rate: 0.01}", "{scheme: shuffle, size: 100}")
    ended = real("curve", "rate", str(file(shuffled)), "--range", "99,100")
    assert ended.code == 0
    assert [line.split()[1] == "-" for line in ended.out.splitlines()[1:3]] == [False, True]


def test_noise_and_rates_that_grow_by_equal_factors_are_drawn_so(real, file):
    words = ("--json", "--method", "inversion", str(file()))
    scales = {
        over: [json.loads(real("curve", kind, "--range", over, *words).out)["x"]["scale"] for kind in ("sigma", "rate")]
        for over in ("0.01:0.1:3:log", "0.01:0.1:3", "0.01,0.1")
    }
    assert list(scales.values()) == [["log", "log"], ["linear", "linear"], ["linear", "linear"]]


@pytest.mark.heavy
def test_epochs_are_round_numbers(real, file):
    """600 passes of 1.0001 of the data each once read 2.00008, 4.00015, 10.0004."""
    words = ("--unset", "training.steps", "--set", "training.epochs=50", "--csv", "--method", "inversion")
    told = rows(real("curve", "epochs", str(file()), *words))
    assert [row["epochs"] for row in told] == [str(2 * number) for number in range(1, 26)]


@pytest.mark.heavy
def test_a_trade_off_shows_small_false_positive_rates(real, file):
    """Guessing detects as often as it raises false alarms, and no bound on an attacker is below that."""
    document = json.loads(real("curve", "tradeoff", str(file()), "--json").out)
    assert document["x"]["scale"] == "log"
    assert min(point["x"] for point in document["series"][0]["points"]) <= 1e-4
    head, *lines = (line.split() for line in real("curve", "tradeoff", str(file())).out.splitlines())
    assert head[-1] == "guessing"
    guesses = [(Decimal(row[-1]), Decimal(row[0])) for row in lines if len(row) == len(lines[0])]
    assert all(guess >= alarms for guess, alarms in guesses)
    assert any(guess > alarms for guess, alarms in guesses)  # rounded up


def test_without_matplotlib_the_way_out_is_told_at_once(real, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = real(*STEPS, str(file()), "--plot", "a.svg")
    assert (ended.code, ended.out) == (2, "")
    assert "pip install matplotlib" in ended.err


def test_a_secret_order_that_lowers_nothing_is_said(real, file):
    path = str(file(SHUFFLED))
    assert "note: the secret order lowers nothing here" in real("curve", "epochs", path, "--range", "1,2").err
