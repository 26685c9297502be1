"""The printed form, and that nothing in it can drive a terminal or a runner."""

import pickle
import re
import time

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, visible
from tests.config.texts import corpus, errors, flat, loaded

ROWS = corpus("terminals")


def test_the_form_of_the_manual():
    text = "\n" * 8 + "mechanism: {type: gaussian, noise_multiplier: 1.1, l2_norm_clip: 1.0}\n"
    (found,) = [error for error in errors(text) if error.code == "DPC101"]
    assert (found.line, found.column) == (9, 52)
    assert found.format() == (
        "file.yaml:9:52: error[DPC101]: unknown key `l2_norm_clip` in `mechanism`\n"
        "  |\n"
        "9 | mechanism: {type: gaussian, noise_multiplier: 1.1, l2_norm_clip: 1.0}\n"
        "  |                                                    ^^^^^^^^^^^^ dpcalc calls this `max_grad_norm`"
    )


def test_errors_and_results_cross_processes():
    with pytest.raises(ConfigError) as caught:
        load_text("a: [", path="f.yaml")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
    found = loaded(flat({}))
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert (again, again.mark("training.steps")) == (found, (5, 12))


@pytest.mark.parametrize(("text", "shown"), ROWS["visible"])
def test_visible(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize("text", ROWS["nothing"])
def test_nothing_reaches_the_terminal(text):
    printed = "".join(item.format() for item in errors(text)).replace("\n", "")
    assert visible(printed) == printed


def test_a_hostile_path_is_shown_and_kept():
    with pytest.raises(ConfigError) as caught:
        load_text("", path="a\x1b[31m.yaml")
    assert str(caught.value).startswith("a\\x1b[31m.yaml:1:1: error[DPC100]")
    assert caught.value.diagnostics[0].path == "a\x1b[31m.yaml"


def unknown(line):
    """The error of the key `zz` in a line: the line as it is shown, and what is underlined."""
    (found,) = [each for each in errors(flat({}) + line) if "`zz`" in each.message]
    return found.source_line, (found.caret, found.width)


def test_carets_stand_under_their_word():
    # 11 cells to the quote, 2 each for the signs, 4 for the escape
    assert unknown('tuning: {"x-日本\xad": 1, zz: 1}') == ('tuning: {"x-日本\\xad": 1, zz: 1}', (27, 2))


def test_long_lines_are_cut_around_the_place():
    filler = "".join(chr(97 + index % 26) for index in range(480))
    line = f"tuning: {{x-a: {filler}, zz: {filler}}}"
    at = line.index("zz: ")
    shown, (caret, width) = unknown(line)
    assert shown == "..." + line[at - 50 : at + 50] + "..."
    assert shown[caret - 1 : caret - 1 + width] == "zz"
    assert unknown(f"zz: {filler}")[0] == f"zz: {filler}"[:100] + "..."
    assert unknown(f"tuning: {{x-a: {filler}, zz: 1}}") == (f"...{f'{filler}, zz: 1}}'[-100:]}", (98, 2))


COMMANDS = ["::error::x", "x ::group::", "a ##[section]b", "##vso[task.setvariable]c", "###[x"]


@pytest.mark.parametrize("text", COMMANDS)
def test_nothing_is_a_command_to_a_runner(text):
    lines = [f"tuning: {{zz: 1, x-a: '{'x' * pad} {text}'}}" for pad in range(60, 90)]  # cut behind, or in the middle
    lines += [f"tuning: {{x-a: ' {text}{'x' * pad}', zz: 1}}" for pad in range(25, 55)]
    for made in (visible(text), *(unknown(line)[0] for line in lines)):
        assert not re.search(r"(?:^|\s)::|##\w*\[", made)


def test_a_long_line_costs_no_more_than_its_part_that_is_shown():
    keys = ", ".join(f"a{at}: 1" for at in range(2000))
    start = time.process_time()
    assert len(errors(flat({"training": f"{{{keys}}}  # {'##[' * 50_000}"}))) == 2000
    assert time.process_time() - start < 15
