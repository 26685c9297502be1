"""A config inside a training config: the `dpcalc:` section, `--key`; `requires`."""

import pytest

from dpcalc.config import load as version
from dpcalc.config.expand import Overrides
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import PATH, corpus, flat, indented, marked

ROWS = corpus("discovered")

TRAINING = """\
defaults: [optional model: resnet, optional optim: sgd]
train: {batch_size: 512, max_steps: 300, lr: .nan, lr: 2, when: !!timestamp 2024-01-01}
? [odd]
: ~
model: &model {name: resnet18, dropout: .5, <<: 3}
"""


def inside(text, key="dpcalc"):
    return f"{TRAINING}{key}:\n{indented(text)}"


def found(text, key="", assignments=()):
    with pytest.raises(ConfigError) as caught:
        load_text(text, path=PATH, key=key, assignments=assignments)
    return caught.value.diagnostics


def test_the_rest_of_the_file_is_the_trainings():
    loaded = load_text(inside(flat({})), path="f")
    assert loaded.plan == load_text(flat({}), path="f").plan
    assert (loaded.section, load_text(flat({}), path="f").section) == ("dpcalc", "")


def test_references_look_into_the_whole_file():
    changes = {"training": "{steps: '${train.max_steps}', batch_size: '${train.batch_size}'}"}
    loaded = load_text(inside(flat({**changes, "sampling": "{scheme: poisson}"})), path="f")
    (phase,) = loaded.plan.phases
    assert (phase.steps, phase.hierarchy.level(1).rate * 60_000) == (300, 512)


def test_marks_are_lines_of_the_file_and_keys_of_the_section():
    text, ((line, column),) = marked(inside(flat({"training": "{§steps: 3}"})))
    loaded = load_text(text, path="f")
    assert loaded.mark("training.steps") == (line, column)
    assert loaded.mark("train.max_steps") is None


@pytest.mark.parametrize(("changes", "code"), ROWS["sections"])
def test_the_section_is_as_strict_as_a_file(changes, code):
    text, places = marked(inside(flat(changes)))
    assert [(one.code, (one.line, one.column)) for one in found(text)] == [(code, place) for place in places]


@pytest.mark.parametrize("section", ["3", "[a]", "text"])
def test_the_section_is_a_mapping(section):
    assert [one.code for one in found(f"train: 1\ndpcalc: {section}\n")] == ["DPC102"]


def test_settings_are_of_the_section():
    text = inside(flat({"training": "{steps: '${train.max_steps}'}"}))
    assert load_text(text, path="f", assignments=["training.steps=9"]).plan.steps == 9
    (error,) = found(text, assignments=["train.max_steps=9"])
    assert (error.code, error.path, error.column) == ("DPC101", "--set #1", 1)


@pytest.mark.parametrize("key", ["experiment.privacy", "runs[1]"])
def test_key(key):
    text = f"experiment:\n  lr: 1\n  lr: 2\n  privacy:\n{indented(flat({}), '    ')}"
    text += f"runs:\n  - {{a: 1}}\n  -\n{indented(flat({}), '    ')}"
    loaded = load_text(text, path="f", key=key)
    assert (loaded.plan, loaded.section) == (load_text(flat({}), path="f").plan, key)


def test_key_wins_over_the_section():
    text = inside(flat({})) + "other:\n" + indented(flat({"training": "{steps: 7}"}))
    assert load_text(text, path="f", key="other").plan.steps == 7


@pytest.mark.parametrize(("key", "code", "place", "words"), ROWS["keys"])
def test_key_leads_nowhere(key, code, place, words):
    (error,) = found(TRAINING, key=key)
    assert error.code == code
    assert words in error.message
    assert place is None or (error.path, error.line, error.column) == ("--key", *place)


@pytest.mark.parametrize(
    ("installed", "required", "met"),
    [
        *(("0.1.0", text, True) for text in (">=0.1", ">=0.1.0, <1", "==0.1", "<=0.1.0", ">0.0.9", " >= 0.1 ,<2 ")),
        *(("0.1.0", text, False) for text in (">=0.2", "<0.1", ">0.1.0", "==0.1.1", ">=0.1, <0.1", ">=0.1.0.1")),
        *(("0.1.2", text, True) for text in ("==0.1.*", "~=0.1.0", "!=0.2.*, >0")),
        *(("0.1.2", text, False) for text in ("~=0.2.0", "!=0.1.*, >0")),
        ("0.10.0", ">0.9", True),
        ("0.2.dev3", ">=0.2", True),
    ],
)
def test_required_versions(installed, required, met, monkeypatch):
    monkeypatch.setattr(version, "__version__", installed)
    text, places = marked(flat({"requires": f'§"{required}"', **({} if met else {"future_key": "3"})}))
    if met:
        assert load_text(text, path="f").plan.steps == 100
        return
    (error,) = found(text)
    assert (error.code, [(error.line, error.column)]) == ("DPC104", places)
    assert f"is for dpcalc {required}" in error.message


@pytest.mark.parametrize(("value", "code"), ROWS["requirements"])
def test_requirements_that_cannot_be_read(value, code):
    (error,) = found(flat({"requires": value}))
    assert (error.code, error.line) == (code, 7)


@pytest.mark.parametrize(
    ("unset", "set_", "steps"),
    [(["training.steps"], ["training.epochs=1"], 235), (["training"], ["training.steps=5"], 5)],
)
def test_unset(unset, set_, steps):
    overrides = Overrides(unset=tuple(unset), assignments=tuple(set_))
    assert load_text(flat({}), path="f", overrides=overrides).plan.steps == steps


def test_unset_of_list_items_and_of_the_whole_budget():
    text = flat({"phases": "[{name: a}, {name: b}]", "budget": "{epsilon: 1}"})
    loaded = load_text(text, path="f", overrides=Overrides(unset=("phases[0]", "budget")))
    assert ([phase.name for phase in loaded.plan.phases], loaded.plan.budget) == (["b"], None)


@pytest.mark.parametrize(
    ("key", "code", "column"),
    [("training.stepz", "DPC103", 10), ("phases[0]", "DPC103", 1), ("a=b", "DPC100", 2), ("", "DPC100", 1)],
)
def test_unset_of_nothing(key, code, column):
    with pytest.raises(ConfigError) as caught:
        load_text(flat({}), path="f", overrides=Overrides(unset=(key,)))
    (error,) = caught.value.diagnostics
    assert (error.code, error.path, error.column) == (code, "--unset #1", column)


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        (Overrides(unset=("training", "training")), "--unset #2", "set twice"),
        (Overrides(assignments=("training.steps=1",), flags=(("--steps", "2"),)), "--steps", "by --set and by --steps"),
    ],
)
def test_the_same_key_twice(overrides, path, words):
    with pytest.raises(ConfigError) as caught:
        load_text(flat({}), path="f", overrides=overrides)
    found = [error for error in caught.value.diagnostics if error.code == "DPC105"]
    assert [error.path for error in found] == [path]
    assert words in found[0].message
