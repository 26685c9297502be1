"""Small promises of the output: digits on the safe side, the same everywhere, and hints that lead to the right key."""

import json
from decimal import Decimal

import pytest

from dpcalc.config.messages import key_suggestion
from tests.cli.solving import FLAT, facts


@pytest.mark.heavy
def test_a_bound_has_the_same_digits_in_every_command(real, file):
    """Near the budget there are more digits, so that the verdict shows."""
    found = json.loads(real("epsilon", str(file()), "--json").out)["guarantee"]["epsilon"]
    budget = found * (1 - 1e-4)
    path = str(file(FLAT.replace("epsilon: 1.5", f"epsilon: {budget!r}")))
    shown = facts(real("epsilon", path))["epsilon"]
    assert budget < found <= float(shown)
    assert float(shown) - found < found - budget
    rows = [block for block in real("compare", path).out.split("\n\n") if block.startswith("method: pld\n")]
    assert facts(type("Ended", (), {"out": rows[0]}))["epsilon"] == shown


def test_guessing_is_rounded_up(real, file):
    """Guessing detects as often as it raises false alarms, and no bound on an attacker is below that."""
    head, *rows = (line.split() for line in real("curve", "tradeoff", str(file())).out.splitlines())
    assert head[-1] == "guessing"
    assert all(Decimal(row[-1]) >= Decimal(row[0]) for row in rows if len(row) == len(rows[0]))
    assert any(Decimal(row[-1]) > Decimal(row[0]) for row in rows if len(row) == len(rows[0]))


def test_a_large_epsilon_is_short(real, file):
    assert facts(real("delta", str(file()), "--epsilon", "1e9"))["epsilon"] == "1e+9"


def test_the_batch_is_no_level(real, file):
    ended = real("epsilon", str(file()), "--set", "mechanism.clip=nobody")
    assert "the levels are example; `batch` clips the whole batch as one vector" in ended.err


def test_a_key_that_was_not_there(real, file, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(FLAT.replace("delta: 1e-5", "delta: 1e-5, group_size: 4"), encoding="utf-8")
    assert "privacy.group_size: not set -> 4" in real("diff", str(file()), str(other)).out


def test_a_chart_has_thousands_separators_and_a_pipe_has_none(real, file, monkeypatch):
    path = str(file(FLAT.replace("1_000", "50_000").replace("clinic", "clinic 2024")))
    points = real("curve", "steps", path, "--range", "10000,20000").out
    assert "10000" in points
    monkeypatch.setattr("dpcalc.cli.explore.on_terminal", lambda: True)
    drawn = real("curve", "steps", path, "--range", "10000,20000").out
    assert "of 50,000 (example)" in drawn.replace("\n", " ").replace("  ", " ")
    assert "clinic 2024: " in drawn


@pytest.mark.parametrize("word", ["buf_decay", "output_scale"])
def test_what_no_key_of_ours_means_is_said_so(word):
    assert key_suggestion("training", word).hint.endswith("not covered")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "FILE", "--draws", "abc"), "'--draws': expected a whole number >= 1, got `abc`"),
        (("simulate", "FILE", "--draws", "0"), "'--draws': expected a whole number >= 1, got `0`"),
        (("simulate", "FILE", "--draws", "5k"), "'--draws': expected a whole number >= 1, got `5k`; write 5_000"),
        (("simulate", "FILE", "--seed", "-1"), "'--seed': expected a whole number >= 0, got `-1`"),
        (("simulate", "FILE", "--seed", "nan"), "'--seed': expected a whole number >= 0, got `nan`"),
        (("sweep", "FILE", "--over", "training.steps=1,2", "--jobs", "1.5"), "'--jobs': expected a whole number >= 1"),
        (("pate", "--queries", "inf", "--sigma", "40", "--delta", "1e-5"), "'--queries': expected a whole number >= 1"),
        (
            ("pate", "v.npy", "--classes", "1", "--sigma", "40", "--delta", "1e-5"),
            "'--classes': expected a whole number",
        ),
    ],
)
def test_whole_numbers_of_options(real, file, arguments, message):
    ended = real(*(str(file()) if word == "FILE" else word for word in arguments))
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(f"Error: Invalid value for {message}")


def test_a_whole_number_of_an_option_may_have_an_exponent(real):
    arguments = ("pate", "-q", "--sigma", "40", "--delta", "1e-5", "--queries")
    assert real(*arguments, "1e3").out == real(*arguments, "1000").out != ""


@pytest.mark.parametrize(
    ("command", "option", "hint"),
    [
        ("epsilon", "--sigma", "  = dpcalc calls this --noise-multiplier"),
        ("solve-steps", "--num-epochs", "  = dpcalc calls this --epochs"),
        ("epsilon", "--target_delta", "  = dpcalc calls this --delta"),
        ("epsilon", "--lot-size", "  = dpcalc calls this --batch-size"),
        ("epsilon", "--l2_norm_clip", "  = dpcalc needs no clip norm: the noise multiplier is relative to it"),
        ("epsilon", "--nonsense", "Error: No such option: --nonsense"),
        ("lock", "--sigma", "Error: No such option: --sigma"),  # it has no --noise-multiplier
    ],
)
def test_options_of_other_tools(real, command, option, hint):
    ended = real(command, option, "2")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(hint)


def test_a_decimal_comma(real, file):
    for arguments in (("epsilon", str(file()), "--noise-multiplier", "1,5"), ("risk", str(file()), "--prior", "1,5")):
        assert "write 1.5, with a decimal point" in real(*arguments).err


def test_no_rule_is_near_a_word_without_digits(real):
    assert "`dpcalc explain` lists all" in real("explain", "dpc").err
