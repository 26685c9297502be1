"""The printed form, and that nothing in it can drive a terminal."""

import pickle
import re
import time

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError, Diagnostic, Severity, excerpt, visible
from tests.config.texts import corpus, errors, flat


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


@pytest.mark.parametrize("case", corpus("unsectioned"), ids=lambda case: case["written"][:20])
def test_a_file_without_sections_is_answered_by_one_with_what_it_states(case):
    written, given, meant = case["written"], case["given"], case["meant"]
    (found,) = errors(written)
    assert "none of the sections" in found.message
    assert found.format().endswith("\n\n" + "\n".join(found.example))
    text = "\n".join(found.example)
    # Every number in it stands in the file, and what is missing is one error each.
    asked = re.findall(r"\w+: \?\?\?", text)
    assert set(asked) == given.keys()
    assert [each.code for each in errors(text)] == ["DPC110"] * len(asked)
    for question, answer in given.items():
        text = text.replace(question, answer)
    pasted = load_text(text, path="pasted.yaml")
    assert pasted.config_hash == load_text(flat(meant), path="meant.yaml").config_hash


FOREIGN = corpus("foreign")


@pytest.mark.parametrize("text", FOREIGN)
def test_a_file_of_another_tool_gets_one_error_that_invents_no_number(text):
    (found,) = errors(text)
    assert found.message.startswith("this is no dpcalc config")
    assert "`dpcalc init`" in found.hint
    assert "`dpcalc:`" in found.hint
    config = [line.partition("#")[0] for line in found.example if not line.startswith(("#", "version"))]
    numbers = re.findall(r"[\d.e-]*\d[\d.e-]*", " ".join(config))
    assert set(numbers) <= set(re.findall(r"[\d.e-]*\d[\d.e-]*", text))
    assert "scheme: ???" in "".join(config)
    assert "noise_multiplier: 0.5" not in "".join(config)
    assert "delta: 0.3" not in "".join(config)


def test_what_is_found_below_the_top_is_said_with_its_place():
    (found,) = errors(FOREIGN[5])
    (line,) = (line for line in found.example if line.startswith("mechanism"))
    assert line.startswith(
        "mechanism: {noise_multiplier: 0.001, max_grad_norm: 5.0}  # noise_multiplier from models[0]."
    )


def test_words_whose_value_cannot_be_copied_are_explained():
    (found,) = errors(FOREIGN[3])
    shown = "\n".join(found.example)
    assert "  noise_multiplier: ???" in shown
    assert "  batch_size: ???" in shown
    assert "  steps: 2000" in shown
    assert any(line.startswith("# cohort_size: 100: `scheme: fixed") for line in found.example)
    assert any("solve-sigma" in line for line in found.example)
    (found,) = errors(FOREIGN[4])
    assert "  steps: ???  # max_steps is 1000, num_train_epochs is 3" in found.example


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


def test_a_value_cannot_leave_its_line_of_the_example():
    (found,) = errors('sigma: "1\\n::error::forged"\nsteps: 5,000\n')
    assert found.example[5:9] == (
        'mechanism: {noise_multiplier: "1\\n::error::forged"}  # noise_multiplier from sigma',
        "training:",
        '  steps: "5,000"',
        "  batch_size: ???",
    )


@pytest.mark.parametrize("text", ["[1, 2]", "hello", "7"])
def test_what_is_no_mapping_has_a_way_out(text):
    (found,) = errors(text)
    assert "must be a mapping of keys" in found.message
    assert "`dpcalc init` writes a config" in found.hint


def shown_of(text):
    (only,) = errors(text)
    return "\n".join(map(str, only.example))


def test_the_epsilon_of_one_release_is_no_budget_of_the_run():
    text = "dp_args: {enable_dp: true, mechanism_type: gaussian, epsilon: 0.5, delta: 1e-5, sensitivity: 1.0}\n"
    said = shown_of(text + "train_args: {comm_round: 50}\n")
    assert "budget: {epsilon: 0.5}" not in said
    assert "privacy: {delta" not in said
    assert "of one release" in said


def test_the_eps_of_an_optimizer_is_no_budget():
    said = shown_of("lr: 1e-3\neps: 1e-8\nweight_decay: 0.1\nnoise_multiplier: 1.1\ntarget_delta: 1e-5\n")
    assert "1e-8" not in said
    assert "noise_multiplier: 1.1" in said


@pytest.mark.parametrize("stated", ["mechanism_type: laplace", "mechanism_name: Laplace", "noise_type: laplacian"])
def test_laplace_noise_becomes_no_gaussian_noise(stated):
    said = shown_of(f"{stated}\nnoise_multiplier: 2\nmax_grad_norm: 1.0\ntarget_delta: 1e-5\n")
    assert "noise_multiplier: ???" in said
    assert "state its `type`" in said
