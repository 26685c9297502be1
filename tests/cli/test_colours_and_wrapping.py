"""What a terminal shows in colour, and where lines end; what is piped is never touched."""

import io
import re
import shlex

import pytest

from dpcalc.cli.output import on_terminal, styled_text
from tests.cli.running import on_a_terminal
from tests.thinning import thinned

TEXT = """\
ok.yaml: passed, epsilon 0.947 of 2.0, 47.4% used
over.yaml: failed, epsilon 2.02 of 2.0, 101% used
over.yaml:14:19: error[DPC301]: epsilon 2.02 exceeds the budget 2.0 (unit example, delta 1e-05)
broken.yaml: invalid
<stdin>: undecided
infinite.yaml: warning[DPC304]: no budget.epsilon: nothing says what this run may cost
note: draw Poisson batches of the same expected size, with the same noise multiplier: epsilon 12.1 -> 2.39
checked 4 files: 1 undecided, 1 invalid, 1 failed, 1 passed
"""


class Terminal(io.StringIO):
    """A stream that is a terminal of some width."""

    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """A text as a terminal of some columns shows it."""

    def of(text, *, columns=80, plain=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        return styled_text(text, Terminal())

    return of


def bare(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_verdicts_differ_in_colour(shown):
    found = {word: colour for colour, word in re.findall(r": \x1b\[([\d;]+)m(\w+)\x1b", shown(TEXT))}
    verdicts = [found[word] for word in ("passed", "failed", "invalid", "undecided")]
    assert len(set(verdicts)) == 4
    counted = {word: colour for colour, word in re.findall(r"\d \x1b\[([\d;]+)m(\w+)\x1b", shown(TEXT))}
    assert counted == {word: found[word] for word in counted}
    assert len(counted) == 4


def test_findings_differ_in_colour(shown):
    found = {word: colour for colour, word in re.findall(r"\x1b\[([\d;]+)m(error|warning|note)", shown(TEXT))}
    assert len(set(found.values())) == 3
    assert "\x1b[1;31merror[DPC301]\x1b[0m: epsilon" in shown(TEXT)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_lines_end_between_words(shown, columns):
    text = bare(shown(TEXT, columns=columns))
    assert all(len(line) <= columns for line in text.splitlines())
    assert text.split() == TEXT.split()


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_long_excerpt_is_cut_around_its_marks(shown, columns):
    before, after = "x" * 70, "z" * 90
    excerpt = f"  |\n9 | {before} l2_norm_clip: 1.0  # {after}\n  | {' ' * 71}^^^^^^^^^^^^ dpcalc calls this y\n"
    empty, line, marks, words, end = shown(excerpt, columns=columns).split("\n")
    assert (empty, words, end) == ("  |", "  = dpcalc calls this y", "")
    assert max(map(len, (line, marks))) <= columns
    start = marks.index("^")
    assert line[start : start + 12] == "l2_norm_clip"
    assert marks == "  | " + " " * (start - 4) + "^" * 12
    assert line[4:7] == line[-3:] == "..."
    assert shown(excerpt, columns=200).split("\n") == excerpt.split("\n")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_long_command_can_be_pasted(shown, columns):
    words = ["dpcalc", "epsilon", "config.yaml", "--target-eps", "2", *["--set", "a=b"] * 10]
    label, *command = shown(f"  give one:            {' '.join(words)}", columns=columns).split("\n")
    assert label == "  give one:"
    assert max(map(len, command)) <= columns
    assert shlex.split("\n".join(command).replace("\\\n", " ")) == words  # as a shell reads it


def test_numbers_of_notes_have_separators_but_places_code_and_years_have_none(shown):
    text = (
        "2024/a.yaml:12345:1: error[DPC101]: 1e5\nnote: 10000 of 60000 (Abadi et al. 2016), `a=5000`, 2024.yaml:1234:5"
    )
    plain = shown(text, columns=200, plain=True)
    assert plain == text.replace("10000 of 60000", "10,000 of 60,000")


def test_without_colours_words_are_still_wrapped(shown):
    assert "\x1b" not in shown(TEXT, plain=True)
    assert max(map(len, shown(TEXT, plain=True, columns=60).splitlines())) <= 60


def test_what_is_no_terminal_gets_the_text_as_it_is():
    assert styled_text(TEXT, io.StringIO()) == TEXT
    assert not on_terminal()


def test_a_gate_in_colour(config):
    code, text = on_a_terminal("check", config(steps=2020), columns=200)
    assert code == 1
    assert ": \x1b[1;31mfailed\x1b[0m, epsilon 2.02" in text
    assert "\x1b[1;31merror[DPC301]\x1b[0m:" in text
    assert "1 \x1b[1;31mfailed\x1b[0m" in text


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_comparison_breaks_no_word(config, columns):
    code, text = on_a_terminal("compare", config(), columns=columns)
    assert code == 0
    words = {word.strip(",") for word in bare(text).split()}
    assert {"one-step", "upper"} <= words
    assert max(map(len, bare(text).splitlines())) <= columns


def test_counts_have_thousands_separators_for_people_only(dpcalc, config):
    _, text = on_a_terminal("epsilon", config(steps=5000))
    assert "5,000 steps" in text
    assert "phases: training: 5000 steps" in dpcalc("epsilon", config(steps=5000)).out


@pytest.mark.heavy
@pytest.mark.parametrize("command", thinned(["several", "epsilon", "compare", "steps"], 1))
def test_names_are_shown_as_they_are_written(config, tmp_path, command):
    """No markup is read in them, and no code of an emoji."""
    name = "[red]x[/red] :smile: [/b]"
    path = config(name=f"'{name}'", file="[bold]:B:.yaml", steps=50)
    words = {"several": ("epsilon", path, config(name="other")), "steps": ("curve", "steps", path, "--range", "10,50")}
    code, text = on_a_terminal(*words.get(command, (command, path)), columns=200)
    assert code == 0
    assert command == "compare" or name in bare(text)
    assert "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}" not in text
    code, text = on_a_terminal("check", path, columns=200)
    assert f"{tmp_path}/[bold]:B:.yaml: " in bare(text)
