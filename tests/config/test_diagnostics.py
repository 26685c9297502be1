"""The printed form, and that nothing in it can drive a terminal."""

import pickle
import re
import time

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, Diagnostic, Severity, excerpt, visible
from tests.config.texts import errors, flat


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


def test_wider_line_numbers_widen_the_margin():
    (found,) = errors("\n" * 11 + flat({"training": "{steps: x}"}))
    assert found.format().splitlines()[1:] == ["   |", "16 | training: {steps: x}", "   | " + " " * 18 + "^"]


def test_without_a_line():
    found = Diagnostic(code="DPC100", severity=Severity.ERROR, message="no such file", hint="look again", path="a.yaml")
    assert found.format() == "a.yaml: error[DPC100]: no such file\n  = look again"


def test_the_error_is_all_findings():
    with pytest.raises(ConfigError) as caught:
        load_text(flat({"training": "{steps: x}", "sampling": "{scheme: y}"}), path="f.yaml")
    assert str(caught.value) == "\n\n".join(item.format() for item in caught.value.diagnostics)
    assert str(caught.value).count("error[") == 2


def test_errors_and_results_cross_processes():
    with pytest.raises(ConfigError) as caught:
        load_text("a: [", path="f.yaml")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
    loaded = load_text(flat({}), path="f.yaml")
    again = pickle.loads(pickle.dumps(loaded))  # noqa: S301
    assert (again, again.mark("training.steps")) == (loaded, (5, 12))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 日本", "naïve 日本"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb\nc\td", "a\\x0db\\x0ac\\x09d"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066\u200b\u2028", "\\u2066\\u200b\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nname: \u202egnp\nfoo\u202e: 3\n",
        '"\\e]0;title\\a": 1\n',
        'version: "\\e[2J"\n',
        "a\u2066b: [\n",
        flat({"privacy": '{unit: "\\x9b", delta: 1e-6}'}),
        flat({"sampling": '{scheme: "\\x9b"}'}),
    ],
)
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


def test_tabs_take_one_cell():
    assert excerpt("a:\tb", 4, 1) == ("a: b", 4, 1)


COMMANDS = ["::error::x", " \t::add-mask::x", "x ::group::", "a ##[section]b", "##vso[task.setvariable]c", "###[x"]


@pytest.mark.parametrize("text", COMMANDS)
def test_nothing_is_a_command_to_a_runner(text):
    shown, _, _ = excerpt(text, 1, 1)
    for made in (visible(text), shown, *(excerpt(text, column, 2)[0] for column in range(1, len(text)))):
        assert not re.search(r"(?:^|\s)::|##\w*\[", made)


@pytest.mark.parametrize("text", ["a::b", "std::x", "# comment", "## heading", "x: ':'", "1:2"])
def test_what_is_no_command_stays(text):
    assert visible(text) == text


def test_a_long_line_costs_no_more_than_its_part_that_is_shown():
    line = "##[" * 50_000
    start = time.process_time()
    for column in range(1, 2001):
        excerpt(line, column, 1)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("written", "nested"),
    [
        (
            "dataset_size: 60_000\nnoise_multiplier: 1.1\nlot_size: 256\nsteps: 100\ndelta: 1e-6\nl2_norm_clip: 1.0\n",
            {},
        ),
        (
            "num_examples: 60_000\nsigma: 1.1\nexpected: 256\niterations: 100\ntarget_delta: 1e-6\nlearning_rate: 0.1",
            {},
        ),
        (
            "version: 1\nmodel: cnn\ndataset_size: 1000\nbatch_size: 10\nnoise: 2\nnum_epochs: 3\ndelta: 1e-5\n",
            {
                "data": "{examples: 1000}",
                "sampling": "{scheme: poisson}",
                "mechanism": "{noise_multiplier: 2}",
                "training": "{batch_size: 10, epochs: 3}",
                "privacy": "{delta: 1e-5}",
            },
        ),
        (
            '{"steps": 7, "sample_rate": 0.25, "target_epsilon": 2}',
            {
                "sampling": "{scheme: poisson, rate: 0.25}",
                "training": "{steps: 7}",
                "privacy": "{delta: 1e-5}",
                "budget": "{epsilon: 2}",
            },
        ),
        ("sigma: 1.1\n", {"sampling": "{scheme: poisson, rate: 0.01}", "training": "{steps: 10_000}"}),
    ],
)
def test_a_file_without_sections_is_answered_by_one_that_can_be_pasted(written, nested):
    (found,) = errors(written)
    assert "none of the sections" in found.message
    assert found.format().endswith("write this instead\n\n" + "\n".join(found.example))
    pasted = load_text("\n".join(found.example), path="pasted.yaml")
    meant = {"mechanism": "{noise_multiplier: 1.1}", "privacy": "{delta: 1e-6}"} | nested
    if "1e-6" not in written:
        meant["privacy"] = "{delta: 1e-5}"
    assert pasted.config_hash == load_text(flat(meant), path="meant.yaml").config_hash


def test_the_config_of_another_tool_gets_one_error():
    (found,) = errors("model: {name: resnet}\noptimizer: {lr: 0.1}\ntrainer: {epochs: 10}\n")
    assert "none of the sections" in found.message
    assert found.hint.startswith("`dpcalc init` writes one")


def test_one_misspelled_section_alone_is_taken_for_a_config():
    assert any("did you mean `training`" in found.hint for found in errors("version: 1\ntrainer: {steps: 10}\n"))


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


def test_what_is_missing_is_marked():
    (found,) = errors("sigma: 1.1\n")
    assert found.example == (
        "version: 1",
        "data: {examples: 60_000}  # examples is not in your file",
        (
            "sampling: {scheme: poisson, rate: 0.01}  # rate is not in your file; how the loader draws: poisson, "
            "cyclic-poisson, fixed, with-replacement, shuffle, balls-in-bins, random-allocation, all or any-order"
        ),
        "mechanism: {noise_multiplier: 1.1}",
        "training: {steps: 10_000}  # steps is not in your file",
        "privacy: {delta: 1e-5}  # delta is not in your file",
    )


def test_a_value_cannot_leave_its_line_of_the_example():
    (found,) = errors('sigma: "1\\n::error::forged"\nsteps: 5,000\n')
    assert found.example[3:5] == (
        'mechanism: {noise_multiplier: "1\\n::error::forged"}',
        'training: {steps: "5,000"}',
    )


@pytest.mark.parametrize("text", ["[1, 2]", "hello", "7"])
def test_what_is_no_mapping_has_a_way_out(text):
    (found,) = errors(text)
    assert "must be a mapping of keys" in found.message
    assert "`dpcalc init` writes a config" in found.hint
