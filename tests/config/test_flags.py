"""Flags: each is short for one `--set`, and some of them are a whole run."""

from fractions import Fraction

import pytest

from dpcalc.config.expand import COMMAND_LINE, Overrides, missing_flags
from dpcalc.config.load import load_from_flags, load_text
from dpcalc.config.source import ConfigError, Severity
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.config.texts import corpus, flat, nested

ROWS = corpus("settings")

RUN = {"--sample-rate": "0.004", "--noise-multiplier": "1.1", "--steps": "14_000", "--delta": "1e-5"}


def overrides(flags, *assignments, assumed=()):
    given = tuple((option, text) for option, text in flags.items() if text is not None)
    return Overrides(flags=given, assignments=assignments, assumed=tuple(assumed))


def shape(loaded):
    (phase,) = loaded.plan.phases
    level = phase.hierarchy.level(1)
    return level.name, level.count, level.scheme, phase.steps


def test_a_remark_on_flags_alone_speaks_of_flags():
    (note,) = (one for one in load_from_flags(overrides(RUN)).diagnostics if one.code == "DPC204")
    assert (note.path, note.line, note.column, note.severity) == (COMMAND_LINE, None, None, Severity.NOTE)
    assert note.hint == "state `--adjacency add-remove`, or replace-one or zero-out"


def test_a_remark_on_a_file_stands_in_the_file():
    text = flat({"privacy": None})
    loaded = load_text(text, path="f", overrides=overrides({"--delta": "1e-6"}))
    (note,) = (one for one in loaded.diagnostics if one.code == "DPC204")
    assert (note.path, note.line, note.column) == ("f", 1, 1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (250, Poisson(probability=Fraction(1, 250)), 14_000)),
        ({"--dataset-size": "1000"}, (1000, Poisson(probability=Fraction(1, 250)), 14_000)),
        ({"--sample-rate": "0.3"}, (4, Poisson(probability=Fraction(3, 10)), 14_000)),
        ({"--sample-rate": "1"}, (1, Poisson(probability=Fraction(1)), 14_000)),
        (
            {"--sample-rate": "0.004266666666666667"},
            (235, Poisson(probability=Fraction(4266666666666667, 10**18)), 14_000),
        ),
        ({"--steps": None, "--epochs": "3"}, (250, Poisson(probability=Fraction(1, 250)), 750)),
        (
            {"--sample-rate": None, "--scheme": "poisson", "--batch-size": "256", "--dataset-size": "60_000"},
            (60_000, Poisson(probability=Fraction(256, 60_000)), 14_000),
        ),
        (
            {"--sample-rate": None, "--scheme": "fixed", "--batch-size": "256", "--dataset-size": "60_000"},
            (60_000, Fixed(size=256), 14_000),
        ),
        ({"--sample-rate": None, "--scheme": "all"}, (1, All(), 14_000)),
        ({"--sample-rate": None, "--scheme": "all", "--dataset-size": "9"}, (9, All(), 14_000)),
    ],
)
def test_flags_alone(changes, expected):
    given = overrides({**RUN, **changes})
    assert missing_flags(given) == ()
    loaded = load_from_flags(given)
    assert shape(loaded) == ("example", *expected)
    assert loaded.path == COMMAND_LINE
    assert (loaded.plan.delta, loaded.plan.phases[0].mechanism.noise_multiplier) == (1e-5, 1.1)


def test_settings_count_like_flags():
    given = overrides({"--delta": "1e-5"}, "sampling.rate=0.5", "training={steps: 3}", "mechanism.noise_multiplier=2")
    assert missing_flags(given) == ()
    assert shape(load_from_flags(given)) == ("example", 2, Poisson(probability=Fraction(1, 2)), 3)
    given = overrides(RUN | {"--sample-rate": None}, "sampling={scheme: fixed, size: 3}", "data.examples=9")
    assert missing_flags(given) == ()
    assert shape(load_from_flags(given)) == ("example", 9, Fixed(size=3), 14_000)


@pytest.mark.parametrize(("changes", "missing"), ROWS["lacking"])
def test_what_is_lacking(changes, missing):
    assert list(missing_flags(overrides({**RUN, **changes}))) == missing


def test_what_is_assumed_is_said():
    notes = load_from_flags(overrides(RUN)).diagnostics
    assert [(note.code, note.severity) for note in notes] == [
        ("DPC201", Severity.NOTE),
        ("DPC201", Severity.NOTE),
        ("DPC204", Severity.NOTE),
    ]
    assert "Poisson" in notes[0].message
    assert "number of examples is not stated" in notes[1].message
    stated = {**RUN, "--scheme": "poisson", "--dataset-size": "5000", "--adjacency": "add-remove"}
    assert load_from_flags(overrides(stated)).diagnostics == ()


def test_an_assumed_size_proves_nothing_about_delta():
    large = {**RUN, "--delta": "0.1", "--adjacency": "add-remove"}
    assert {note.code for note in load_from_flags(overrides(large)).diagnostics} == {"DPC201"}
    stated = load_from_flags(overrides({**large, "--dataset-size": "1000"})).diagnostics
    assert [note.code for note in stated] == ["DPC201", "DPC203"]


@pytest.mark.parametrize(("changes", "codes"), ROWS["mistakes"])
def test_mistakes_in_flags_alone(changes, codes):
    with pytest.raises(ConfigError) as caught:
        load_from_flags(overrides({**RUN, **changes}))
    found = [[error.path, error.code] for error in caught.value.diagnostics]
    assert found == codes or (found[0] in codes and len(found) == 1 < len(codes))


@pytest.mark.parametrize(
    ("assumed", "absent", "expected"),
    [
        (("mechanism.noise_multiplier=1",), "--noise-multiplier", (1.0, 14_000, Fraction(1, 250))),
        (("training.steps=7",), "--steps", (1.1, 7, Fraction(1, 250))),
        (("sampling.rate=0.5", "sampling.size=1"), "--sample-rate", (1.1, 14_000, Fraction(1, 2))),
    ],
)
def test_what_a_solver_assumes(assumed, absent, expected):
    def facts(loaded):
        (phase,) = loaded.plan.phases
        return phase.mechanism.noise_multiplier, phase.steps, phase.hierarchy.level(1).rate

    given = overrides({**RUN, absent: None}, assumed=assumed)
    assert missing_flags(given) == ()
    assert facts(load_from_flags(given)) == expected
    stated = overrides(RUN, assumed=assumed)
    assert facts(load_from_flags(stated)) == (1.1, 14_000, Fraction(1, 250))


@pytest.mark.parametrize("changes", ROWS["not changed"])
def test_a_file_that_says_it_is_not_changed_by_what_is_assumed(changes):
    assumed = ("training.steps=77", "sampling.rate=0.5", "sampling.size=1", "mechanism.noise_multiplier=7")
    text = flat(changes)
    plain, completed = load_text(text, path="f"), load_text(text, path="f", overrides=Overrides(assumed=assumed))
    assert (plain.plan, plain.diagnostics) == (completed.plan, completed.diagnostics)


@pytest.mark.parametrize("text", [flat({}), flat({"data": "{levels: [{name: image, count: 9e4}]}"}), nested({})])
def test_data_of_a_file_are_not_completed(text):
    assumed = Overrides(assumed=("data.examples=7",))
    assert load_text(text, path="f", overrides=assumed).plan == load_text(text, path="f").plan


def test_a_file_is_completed_by_what_is_assumed():
    text = flat({"training": None, "mechanism": "{max_grad_norm: 2}", "sampling": "{scheme: fixed}"})
    assumed = ("training.steps=77", "sampling.rate=0.5", "sampling.size=9", "mechanism.noise_multiplier=7")
    (phase,) = load_text(text, path="f", overrides=Overrides(assumed=assumed)).plan.phases
    facts = (phase.steps, phase.mechanism.noise_multiplier, phase.mechanism.max_grad_norm)
    assert (*facts, phase.hierarchy.level(1).scheme) == (77, 7.0, 2.0, Fixed(size=9))
