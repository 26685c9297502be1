"""The printed form, and that nothing in it can drive a terminal."""

import pickle
import re
import time

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, Diagnostic, Severity, excerpt, visible
from tests.config.texts import corpus, errors, flat

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


def test_without_a_line():
    found = Diagnostic(code="DPC100", severity=Severity.ERROR, message="no such file", hint="look again", path="a.yaml")
    assert found.format() == "a.yaml: error[DPC100]: no such file\n  = look again"


def test_errors_and_results_cross_processes():
    with pytest.raises(ConfigError) as caught:
        load_text("a: [", path="f.yaml")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
    loaded = load_text(flat({}), path="f.yaml")
    again = pickle.loads(pickle.dumps(loaded))  # noqa: S301
    assert (again, again.mark("training.steps")) == (loaded, (5, 12))


@pytest.mark.parametrize(("text", "shown"), ROWS["visible"])
def test_visible(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize("text", ROWS["nothing"])
def test_nothing_reaches_the_terminal(text):
    found = errors(text)
    printed = "".join(item.format() for item in found)
    assert visible(printed.replace("\n", "")) == printed.replace("\n", "")


def test_a_hostile_path_is_shown_and_kept():
    with pytest.raises(ConfigError) as caught:
        load_text("", path="a\x1b[31m.yaml")
    assert str(caught.value).startswith("a\\x1b[31m.yaml:1:1: error[DPC100]")
    assert caught.value.diagnostics[0].path == "a\x1b[31m.yaml"


def test_carets_stand_under_their_word():
    line = "日本: \x1b x"
    shown, caret, width = excerpt(line, line.index("x") + 1, 1)
    assert (shown, caret, width) == ("日本: \\x1b x", 12, 1)  # 2 + 2 cells, ": ", 4 for the escape, " "


def test_long_lines_are_cut_around_the_place():
    line = "".join(chr(97 + index % 26) for index in range(1000))
    shown, caret, width = excerpt(line, 501, 3)
    assert shown == "..." + line[450:550] + "..."
    assert shown[caret - 1 : caret - 1 + width] == line[500:503]
    assert excerpt(line, 1, 3)[0] == line[:100] + "..."
    assert excerpt(line, 1000, 3) == ("..." + line[900:], 103, 1)


COMMANDS = ["::error::x", " \t::add-mask::x", "x ::group::", "a ##[section]b", "##vso[task.setvariable]c", "###[x"]


@pytest.mark.parametrize("text", COMMANDS)
def test_nothing_is_a_command_to_a_runner(text):
    shown, _, _ = excerpt(text, 1, 1)
    for made in (visible(text), shown, *(excerpt(text, column, 2)[0] for column in range(1, len(text)))):
        assert not re.search(r"(?:^|\s)::|##\w*\[", made)


def test_a_long_line_costs_no_more_than_its_part_that_is_shown():
    line = "##[" * 50_000
    start = time.process_time()
    for column in range(1, 2001):
        excerpt(line, column, 1)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", corpus("foreign"))
def test_a_file_of_another_tool_gets_one_error_with_two_ways(text):
    (found,) = errors(text)
    assert found.message.startswith("this is no dpcalc config")
    assert "`dpcalc init FILE`" in found.hint
    assert "`dpcalc:`" in found.hint
    assert "docs/adopt.md" in found.hint


def test_one_misspelled_section_alone_is_taken_for_a_config():
    assert any("did you mean `training`" in found.hint for found in errors("version: 1\ntrainning: {steps: 10}\n"))


@pytest.mark.parametrize("sizes", ["50-300", "50 to 300", "50..300"])
def test_a_range_of_sizes_is_written_as_min_and_max(sizes):
    text = flat(
        {
            "data": "{levels: [{name: user, count: 2000}, {name: example, count: SIZES}]}",
            "sampling": "{user: {scheme: fixed, size: 40}}",
            "privacy": "{unit: user, delta: 1e-6}",
        }
    )
    (found,) = errors(text.replace("SIZES", sizes))
    assert found.hint == "for units that differ in size write {min: 50, max: 300}"
    load_text(text.replace("SIZES", "{min: 50, max: 300}"), path="pasted.yaml")


@pytest.mark.parametrize("text", ["[1, 2]", "hello", "7"])
def test_what_is_no_mapping_has_a_way_out(text):
    (found,) = errors(text)
    assert "must be a mapping of keys" in found.message
    assert "`dpcalc init` writes a config" in found.hint
