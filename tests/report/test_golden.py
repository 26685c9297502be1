"""Outputs of commands in every form: whole in golden files, and their forms agree, rounded to the safe side.

After a wanted change run `pytest tests/report --renew` and read the difference.
"""

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.stand_in import INFINITE

GOLDEN = Path(__file__).parent / "golden"
ROWS = yaml.safe_load(Path(__file__).with_name("outputs.yaml").read_text(encoding="utf-8"))
FILES, OUTPUTS = ROWS["files"], ROWS["outputs"]
(HOSTILE,) = (name for name in FILES if "\x1b" in name)


def steady(text):
    """A text without what a release or the last digits of a number change."""
    text = re.sub(r'("version": ")[^"]+|(dpcalc +|dpcalc \| )\d+\.\d+\.\w+', r"\1\2VERSION", text)
    return re.sub(r"-?\b\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


@pytest.fixture
def ran(real, tmp_path, monkeypatch):
    """Run the words of a command beside the files."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def of(words, *more, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return real(*(HOSTILE if word == "HOSTILE" else word for word in words.split()), *more)

    return of


@pytest.mark.parametrize("name", OUTPUTS)
def test_golden(name, ran, same_as_file, monkeypatch):
    *before, words = OUTPUTS[name] if isinstance(OUTPUTS[name], list) else [OUTPUTS[name]]
    for each in before:
        assert ran(each).code == 0
    for module in ("explore", "output"):
        monkeypatch.setattr(f"dpcalc.cli.{module}.on_terminal", lambda: "terminal" in name)
    text = ran(words, FORCE_COLOR="1" if "styled" in name else "0").out
    same_as_file(steady(text), GOLDEN / f"{name}.txt")
    if "terminal" in name:  # nothing is cut or wider than a terminal
        assert max(len(re.sub(r"\x1b\[\d+m", "", line)) for line in text.splitlines()) <= 80
        assert "…" not in text
    assert "\u202e" not in text
    assert ("\x1b" in text) == ("styled" in name)


def test_every_golden_file_is_used():
    assert {path.stem for path in GOLDEN.iterdir() if not path.stem.startswith("check")} == OUTPUTS.keys()


@pytest.mark.parametrize("width", ["40", "60"])
def test_a_narrow_terminal_loses_no_digit(ran, width):
    wide = set(ran("compare run.yaml --format table").out.split())
    text = ran("compare run.yaml --format table", COLUMNS=width).out
    assert max(map(len, text.splitlines())) <= int(width)
    assert {word for word in wide if re.fullmatch(r"\d+\.\d+|inf|n/a", word)} <= set(text.split())


# Forms that agree


def parsed(text):
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def plain(text):
    return [tuple(line.split(": ", 1)) for line in text.splitlines()]


def json_entries(document, prefix=""):
    """Every dotted path of a document with its value, without the names of objects that plain lines leave out."""
    for name, value in document.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from json_entries(value, prefix if name in {"config", "guarantee", "risk"} else f"{prefix}{name}.")


WITHOUT_JSON = {"solution.held", "solution.name", "solution.value", "solution.target"}
"""Lines without a JSON field: words beside a result, and what was asked for where JSON has `"solution": null`."""


@pytest.mark.parametrize(
    "words",
    [
        "epsilon run.yaml",
        "epsilon nested.yaml -v",
        "epsilon HOSTILE",
        "epsilon silent.yaml",
        "epsilon phases.yaml",
        "solve-sigma run.yaml",
        "solve-steps run.yaml",
        "solve-rate run.yaml --target-eps 1",
        "solve-sigma phases.yaml --target-eps 5",
        "solve-steps run.yaml --target-eps 0.01",
        "delta run.yaml --epsilon 1",
        "delta silent.yaml --epsilon 1",
        "risk run.yaml",
        "ledger show run.yaml",
        "ledger show silent.yaml",
    ],
)
def test_plain_lines_say_what_the_json_says(ran, words):
    """The same names; lower bounds rounded down, upper ones up; what was given in full."""
    entries = dict(json_entries(parsed(ran(words, "--json").out)))
    compared = 0
    for key, text in plain(ran(words).out):
        assert key in entries or key in WITHOUT_JSON
        value = entries.get(key)
        if isinstance(value, bool):
            assert text == ("yes" if value else "no")
        elif isinstance(value, str) and value.isprintable():
            assert text == value
        elif isinstance(value, int | float) and not text.endswith("%"):
            compared += 1
            printed = float(text)
            assert printed == pytest.approx(value, rel=1e-2)
            if key.endswith("_lower"):
                assert printed <= value
            elif key in {"epsilon", "delta", "advantage", "solution.epsilon", "best.epsilon"}:
                assert printed >= value
        elif isinstance(value, list) and value and isinstance(value[0], str):
            assert text in value
    assert compared


@pytest.mark.parametrize(
    "words", ["compare run.yaml", "epsilon nested.yaml --unit all", "epsilon run.yaml silent.yaml"]
)
def test_tables_show_what_the_blocks_say(ran, words):
    """Each number of a block of plain lines is a cell of a table, in one of its rows."""
    table = ran(f"{words} --format markdown").out
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    blocks = [dict(plain(block)) for block in ran(words).out.strip().split("\n\n")]
    assert len(blocks) == len(rows)
    for block, row in zip(blocks, rows, strict=True):
        shared = {
            key: cell for key, cell in zip(header, row, strict=True) if key in block and key not in {"config", "note"}
        }
        assert "epsilon" in shared
        assert shared == {key: block[key].removeprefix("as-published, ") for key in shared}


# What decides is seen: with arithmetic in the place of accounting, epsilon is steps / 1000


@pytest.mark.parametrize(
    ("steps", "limit", "budget", "text"),
    [
        (2000, 2.0, {"used": 1.0, "ok": True}, "within the budget 2.0 (100%)"),
        (2000, 2.0001, {"used": 2 / 2.0001, "ok": True}, "within the budget 2.0001 (99.996%)"),
        (2000, 1.99999, {"used": 2 / 1.99999, "ok": False}, "EXCEEDS the budget 1.99999 (100.001%)"),
        (2100, 2.0, {"used": 1.05, "ok": False}, "EXCEEDS the budget 2.0 (105%)"),
        (INFINITE, 2.0, {"used": None, "ok": False}, "EXCEEDS the budget 2.0"),
        (500, None, None, "epsilon <= 0.500   delta"),
    ],
)
def test_the_part_of_a_budget_that_is_used(dpcalc, config, steps, limit, budget, text):
    path = config(steps=steps, budget="" if limit is None else f"budget: {{epsilon: {limit}}}")
    found = parsed(dpcalc("epsilon", path, "--json").out)["budget"]
    assert found == (budget if budget is None else {"epsilon": limit, **budget})
    assert text in dpcalc("epsilon", path, "--format", "table").out
    told = dict(plain(dpcalc("epsilon", path).out))
    assert told.get("budget.ok") == (None if budget is None else "yes" if budget["ok"] else "no")


@pytest.mark.parametrize(
    ("sampling", "said", "distances"),
    [
        (
            "{scheme: poisson, rate: 0.1, redraw_every: 5}",
            "inclusion 1/10 in each draw for 5 steps",
            ", times the root of 5",
        ),
        ("{scheme: shuffle, size: 100}", "inclusion 1 in each pass of 10 steps", "none"),
        ("{scheme: all}", "all 1,000 (example); inclusion 1", "1 (D||D'), 0 (D'||D)"),
    ],
)
def test_draws_in_words(ran, sampling, said, distances):
    words = ("--set", f"sampling={sampling}", "--format", "table")
    shown = ran("epsilon run.yaml -v", *words).out
    assert said in " ".join(shown.split())
    assert distances in next(line for line in shown.splitlines() if "distances" in line)
    assert "distances" not in ran("epsilon run.yaml", *words).out


OUTSIDE = "outside pld's interval: please report this run"


@pytest.mark.parametrize(
    ("upper", "lower", "estimate", "words"),
    [
        (1.0000003, 0.9999999, 1.0, "inversion agrees with pld to 3e-7"),
        (1.0 - 3e-12, 1.0 - 3.5e-12, 1.0, "inversion agrees with pld to 4e-12"),
        (1.0 - 3e-9, 1.0 - 4e-9, 1.0, f"inversion gives 1.00000, {OUTSIDE}"),
        (1.0000003, 0.9999999, 1.1, f"inversion gives 1.10000, {OUTSIDE}"),
        (1.0000003, 0.9999999, None, "inversion gives no estimate of this run to compare with"),
        (0.0, 0.0, 0.0, "inversion agrees with pld to 0"),
    ],
)
def test_the_agreement_of_two_accountants(ran, monkeypatch, upper, lower, estimate, words):
    """The costlier direction decides."""
    checks = importlib.import_module("dpcalc.planner.compare").cross_checks

    def changed(plan):
        one, other = checks(plan)
        one = replace(one, upper=upper, lower=lower, estimate=estimate)
        return one, replace(other, estimate=estimate, upper=-1.0, lower=-2.0)

    monkeypatch.setattr("dpcalc.planner.compare.cross_checks", changed)
    assert [text for key, text in plain(ran("epsilon run.yaml -v").out) if key == "cross_check"][-1] == words
    assert parsed(ran("epsilon run.yaml -v --json").out)["cross_check"][0]["estimate"] == estimate


def test_an_epsilon_within_an_odd_target_is_not_shown_above_it(ran):
    for target in ("1.997", "0.9871"):
        told = dict(plain(ran(f"solve-sigma run.yaml --target-eps {target}").out))
        assert float(told["solution.epsilon"]) <= float(target)
        assert told["epsilon"] == told["solution.epsilon"]
