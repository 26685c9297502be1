"""Editing in place: the new meaning, and no other byte."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.config.edit import Rewrite, edited
from dpcalc.config.load import load, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.errors import InputError
from dpcalc.sampling.schemes import All, BallsInBins, Fixed, Poisson
from tests.config.texts import FLAT, PATH, flat, nested, varied

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.yaml"))


def with_noise(plan, *noises):
    """A plan with other noise, phase by phase; None leaves it, and so does a mechanism without any."""
    phases = (
        phase if None in (noise, phase.noise_multiplier) else phase.with_noise(noise)
        for phase, noise in zip(plan.phases, noises, strict=True)
    )
    return replace(plan, phases=tuple(phases))


def with_steps(plan, *lengths):
    phases = (
        phase if steps is None else replace(phase, steps=steps)
        for phase, steps in zip(plan.phases, lengths, strict=True)
    )
    return replace(plan, phases=tuple(phases))


def with_draw(plan, *schemes):
    """A plan with other draws of the outermost level, phase by phase; None leaves them."""
    phases = []
    for phase, scheme in zip(plan.phases, schemes, strict=True):
        outer, *inner = phase.hierarchy.levels
        levels = (outer if scheme is None else replace(outer, scheme=scheme), *inner)
        phases.append(replace(phase, hierarchy=replace(phase.hierarchy, levels=levels)))
    return replace(plan, phases=tuple(phases))


def poisson(text):
    return Poisson(probability=Fraction(text))


def changed(text, section, change, *values, assumed=(), key=""):
    """The edited text and what was written."""
    before = load_text(text, path=PATH, key=key, overrides=Overrides(assumed=assumed)).plan
    after = change(before, *values)
    fresh, written = edited(text, Rewrite(path=PATH, key=key, section=section, before=before, after=after))
    assert load_text(fresh, path=PATH, key=key).plan == after
    return fresh, written


def refused(text, section, change, *values, assumed=(), key=""):
    with pytest.raises(InputError) as caught:
        changed(text, section, change, *values, assumed=assumed, key=key)
    assert "nothing was changed" in str(caught.value)
    return str(caught.value)


def differing(old, new):
    """The stretch of each line that differs, for texts of equally many lines."""
    found = []
    for one, other in zip(old.split("\n"), new.split("\n"), strict=True):
        if one == other:
            continue
        start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        stop = 0
        while stop < min(len(one), len(other)) - start and one[-1 - stop] == other[-1 - stop]:
            stop += 1
        found.append(one[start : len(one) - stop])
    return found


CHANGES = {
    "mechanism": lambda plan: with_noise(plan, *(7.123 + n for n, _ in enumerate(plan.phases))),
    "training": lambda plan: with_steps(plan, *(7_777 + n for n, _ in enumerate(plan.phases))),
    "sampling": lambda plan: with_draw(plan, *(drawn_otherwise(phase) for phase in plan.phases)),
}


def drawn_otherwise(phase):
    scheme = phase.hierarchy.levels[0].scheme
    if isinstance(scheme, BallsInBins):
        return replace(scheme, bins=scheme.bins + 1)
    return poisson("0.00123") if isinstance(scheme, Poisson) else replace(scheme, size=scheme.size + 1)


@pytest.mark.parametrize("section", CHANGES)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample(sample, section):
    old = sample.read_text(encoding="utf-8")
    before = load(str(sample)).plan
    drawn = before.phases[0].hierarchy
    if section == "sampling" and (drawn.episodes or isinstance(drawn.levels[0].scheme, All)):
        pytest.skip("no draw to change")
    after = CHANGES[section](before)
    new, written = edited(old, Rewrite(path=str(sample), section=section, before=before, after=after))
    assert load_text(new, path=str(sample)).plan == after
    assert written
    for stretch in differing(old, new):
        assert not set("#{}\n") & set(stretch)  # comments and all else are where they were


@pytest.mark.parametrize("scheme", ["fixed", "with-replacement", "shuffle"])
def test_the_size_of_any_scheme_that_has_one(scheme):
    text = flat({"sampling": f"{{scheme: {scheme}}}", "training": "{steps: 9, batch_size: 256}  # of a loader"})
    before = load_text(text, path=PATH).plan
    drawn = replace(before.phases[0].hierarchy.level(1).scheme, size=300)
    new, written = changed(text, "sampling", with_draw, drawn)
    assert new == text.replace("256", "300")
    assert written == (f"{PATH}:5: batch_size: 300 (was batch_size: 256)",)


def test_a_draw_that_is_held_stays_so():
    text = nested({"sampling": "{task: {size: 4, scheme: fixed, redraw_every: 10}}"})
    new, _ = changed(text, "sampling", with_draw, Fixed(size=7))
    assert new == text.replace("size: 4", "size: 7")


SPACE = st.sampled_from(["", " ", "  "])
COMMENT = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f"), max_size=12).map(
    lambda text: f" # {''.join(one for one in text if one.isprintable())}"
)
NUMBER = st.sampled_from(["1.1", "1", "1.10", "0.9e0", "1_0.5", "100e-2", "2."])
NEW = st.floats(min_value=1e-3, max_value=1e6).map(lambda value: float(f"{value:.6g}"))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How somebody happened to write a file."""

    comments: tuple[str, str, str]
    space: tuple[str, str]
    line_break: str
    braces: bool
    anchor: str
    end: bool

    def around(self, value):
        """The file before and after a value."""
        one, two, three = self.comments
        left, right = self.space
        if self.braces:
            before = f"mechanism: {{{left}max_grad_norm: 1, noise_multiplier: {self.anchor}"
        else:
            before = f"mechanism:{one}\n  max_grad_norm: 1\n  # more\n  noise_multiplier: {left}{self.anchor}"
        rest = varied({key: lines for key, lines in FLAT.items() if key != "mechanism"}, {})
        after = f"{right}{'}' if self.braces else ''}{two}\n{rest}#{three}" + ("\n" if self.end else "")
        before, after = (part.replace("\n", self.line_break) for part in (before, after))
        return before, f"{before}{value}{after}", after


LAYOUTS = st.builds(
    Layout,
    comments=st.tuples(COMMENT, COMMENT, COMMENT),
    space=st.tuples(SPACE, SPACE),
    line_break=st.sampled_from(["\n", "\r\n"]),
    braces=st.booleans(),
    anchor=st.sampled_from(["", "&unused "]),
    end=st.booleans(),
)


@pytest.mark.heavy
@settings(max_examples=150, deadline=None)
@given(NUMBER, NEW, LAYOUTS)
def test_only_the_bytes_of_the_value_change(old, new, layout):
    head, text, foot = layout.around(old)
    fresh, _ = changed(text, "mechanism", with_noise, new)
    written = fresh[len(head) : len(fresh) - len(foot)]
    assert fresh == f"{head}{written}{foot}"
    assert float(written) == new


@pytest.mark.parametrize(
    ("lines", "change", "old", "new"),
    [
        ({"training": "{steps: 10_000}"}, ("training", with_steps, 9_999_999), "10_000", "9_999_999"),
        ({"training": "{epochs: 2}"}, ("training", with_steps, 31), "epochs: 2", "steps: 31"),
        ({}, ("sampling", with_draw, poisson("0.125")), "expected: 256", "expected: 7500"),
        ({}, ("sampling", with_draw, poisson("0.1234567")), "expected: 256", "rate: 0.1234567"),
        (
            {"sampling": "{scheme: poisson}", "training": "{batch_size: 256, steps: 9}"},
            ("sampling", with_draw, poisson("0.0012")),
            "batch_size: 256",
            "batch_size: 72",
        ),
        (
            {"sampling": "{scheme: poisson}", "training": "{batch_size: 256, steps: 9}"},
            ("sampling", with_draw, poisson("0.00123456")),
            "batch_size: 256",
            "batch_size: 74.0736",
        ),
        (
            {"sampling": "{scheme: fixed}", "training": "{batch_size: 1_000, steps: 9}"},
            ("sampling", with_draw, Fixed(size=1024)),
            "batch_size: 1_000",
            "batch_size: 1_024",
        ),
        (
            {"sampling": "{scheme: fixed, size: 3}"},
            ("sampling", with_draw, Fixed(size=60_000)),
            "size: 3",
            "size: 60000",
        ),
    ],
)
def test_short_forms_say_the_same_number_their_way(lines, change, old, new):
    text = flat(lines)
    fresh, (written,) = changed(text, *change)
    assert fresh == text.replace(old, new)
    assert written.endswith(f": {new} (was {old})") or f": {new}" in written


def test_epochs_become_steps_where_they_would_follow_a_new_rate():
    text = flat({"sampling": "{scheme: poisson, rate: 0.01}", "training": "{epochs: 1}"})
    fresh, written = changed(text, "sampling", with_draw, poisson("0.02"))
    assert fresh == text.replace("rate: 0.01", "rate: 0.02").replace("epochs: 1", "steps: 100")
    assert len(written) == 2


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ("{max_grad_norm: 1.0}  # clip", "{max_grad_norm: 1.0, noise_multiplier: 2.5}  # clip"),
        ("{}", "{noise_multiplier: 2.5}"),
        ("\n  max_grad_norm: 1.0  # clip", "\n  max_grad_norm: 1.0  # clip\n  noise_multiplier: 2.5"),
        (
            "\n  type: gaussian\n  # clip\n  clip: example",
            "\n  type: gaussian\n  noise_multiplier: 2.5\n  # clip\n  clip: example",
        ),
    ],
)
def test_a_missing_key_is_added(mechanism, expected):
    assumed = ("mechanism.noise_multiplier=1",)
    text = flat({"mechanism": mechanism})
    fresh, _ = changed(text, "mechanism", with_noise, 2.5, assumed=assumed)
    assert fresh == text.replace(mechanism, expected)
    windows, _ = changed(text.replace("\n", "\r\n"), "mechanism", with_noise, 2.5, assumed=assumed)
    assert windows == fresh.replace("\n", "\r\n")


def test_a_missing_section_is_added_after_the_version():
    text = flat({"training": None, "version": "1  # of the format"})
    fresh, _ = changed(text, "training", with_steps, 12, assumed=("training.steps=1",))
    assert fresh == text.replace("# of the format\n", "# of the format\ntraining: {steps: 12}\n")


def test_an_assumed_value_that_happens_to_be_the_solution_is_written_too():
    text = flat({"mechanism": "{max_grad_norm: 1.0}"})
    fresh, _ = changed(text, "mechanism", with_noise, 1.0, assumed=("mechanism.noise_multiplier=1",))
    assert "noise_multiplier: 1}" in fresh


PHASES = {
    "mechanism": "{noise_multiplier: 1.5}  # of both",
    "training": None,
    "phases": "\n  - name: warm-up\n    training: {steps: 10}\n  - {name: main, training: {epochs: 1}}",
}


def test_what_all_phases_inherit_is_changed_where_it_stands():
    text = flat(PHASES)
    fresh, _ = changed(text, "mechanism", with_noise, 2.25, 2.25)
    assert fresh == text.replace("1.5", "2.25")


@pytest.mark.parametrize(
    ("noises", "warm_up", "main"),
    [
        ((2.0, None), "\n    mechanism: {noise_multiplier: 2}", ""),
        ((None, 3.0), "", ", mechanism: {noise_multiplier: 3}"),
        ((2.0, 3.0), "\n    mechanism: {noise_multiplier: 2}", ", mechanism: {noise_multiplier: 3}"),
    ],
)
def test_a_phase_that_inherits_gets_a_value_of_its_own(noises, warm_up, main):
    text = flat(PHASES)
    fresh, written = changed(text, "mechanism", with_noise, *noises)
    expected = text.replace("name: warm-up", f"name: warm-up{warm_up}").replace("name: main", f"name: main{main}")
    assert fresh == expected
    assert all("phases[" in one for one in written)


def test_inherited_epochs_give_way_to_a_phases_own_steps():
    text = flat(PHASES | {"training": "{epochs: 3}", "phases": "[{name: a}, {name: b}]"})
    fresh, _ = changed(text, "training", with_steps, 5, None)
    assert fresh == text.replace("{name: a}", "{name: a, training: {steps: 5}}")


def test_a_phase_that_inherits_a_draw_gets_a_rate_of_its_own():
    text = flat(PHASES)
    fresh, _ = changed(text, "sampling", with_draw, poisson("0.01"), None)
    assert "name: warm-up\n    sampling: {example: {rate: 0.01}}\n" in fresh


def test_a_nested_draw():
    text = nested({})
    fresh, _ = changed(text, "sampling", with_draw, Fixed(size=9))
    assert fresh == text.replace("size: 4", "size: 9")


@pytest.mark.parametrize(
    "lines",
    [
        {"x-base": "&base {noise_multiplier: 1.5}", "mechanism": "{<<: *base, max_grad_norm: 1}"},
        {"x-base": "&base {noise_multiplier: 1.5}", "mechanism": "*base"},
        {"x-noise": "&noise 1.5", "mechanism": "{noise_multiplier: *noise}"},
        {"mechanism": "{noise_multiplier: &noise 1.5}", "x-again": "*noise"},
        {"mechanism": "&all {noise_multiplier: 1.5}", "x-again": "*all"},
    ],
)
def test_what_an_anchor_repeats_is_left_alone(lines):
    text = varied({key: lines[key] for key in lines if key != "x-again"}, flat_without(lines))
    message = refused(text, "mechanism", with_noise, 2.5)
    assert "comes from the anchor `&" in message
    assert "By hand: `mechanism.noise_multiplier: 2.5`" in message


def flat_without(lines):
    """The rest of the flat file, what repeats an anchor last."""
    rest = {key: value for key, value in FLAT.items() if key not in lines}
    return rest | {key: value for key, value in lines.items() if key == "x-again"}


def test_an_anchor_that_nobody_repeats_is_no_obstacle():
    text = flat({"mechanism": "&m {noise_multiplier: &n 1.5}"})
    assert changed(text, "mechanism", with_noise, 2.5)[0] == text.replace("1.5", "2.5")


def test_an_absent_key_in_a_repeated_mapping_is_left_alone():
    lines = {"x-base": "&base {max_grad_norm: 1}", "mechanism": "*base"}
    text = varied(lines, flat_without(lines))
    message = refused(text, "mechanism", with_noise, 2.5, assumed=("mechanism.noise_multiplier=1",))
    assert "no place of its own" in message


INSIDE = """\
train:
  sigma: 1.1  # of the optimizer
  {key}:
    version: 1
    data: {{examples: 60_000}}
    sampling: {{scheme: poisson, rate: 0.01}}
    mechanism: {{noise_multiplier: {noise}}}
    training: {{steps: 100}}
    privacy: {{adjacency: add-remove, delta: 1e-6}}
"""


def test_a_section_that_is_named():
    text = INSIDE.format(key="dp", noise="1.10")
    fresh, _ = changed(text, "mechanism", with_noise, 2.5, key="train.dp")
    assert fresh == text.replace("1.10", "2.5")


def test_the_section_for_dpcalc():
    text = "train: {sigma: 1.1}\ndpcalc:\n" + "".join(f"  {line}\n" for line in flat({}).splitlines())
    fresh, _ = changed(text, "training", with_steps, 7)
    assert fresh == text.replace("steps: 100", "steps: 7")


def test_a_reference_is_left_alone():
    text = INSIDE.format(key="dp", noise='"${train.sigma}"')
    message = refused(text, "mechanism", with_noise, 2.5, key="train.dp")
    assert "is the reference `${train.sigma}`" in message
    assert "By hand: `train.dp.mechanism.noise_multiplier: 2.5`" in message


def test_no_short_decimal_no_edit():
    text = flat({"sampling": "{scheme: poisson, rate: 0.5}"})
    assert "1/3 is no decimal number" in refused(text, "sampling", with_draw, poisson("1/3"))


def test_a_decimal_nobody_would_write_is_not_written():
    text = flat({"sampling": "{scheme: poisson, rate: 0.5}"})
    assert "has too many digits" in refused(text, "sampling", with_draw, poisson(f"0.{'1' * 30}"))
    fresh, _ = changed(text, "sampling", with_draw, poisson("0.12345678901234567891"))
    assert fresh == text.replace("0.5", "0.12345678901234567891")


def test_a_value_that_something_else_refers_to_is_left_alone():
    text = flat({"budget": '{epsilon: "${mechanism.noise_multiplier}"}'})
    message = refused(text, "mechanism", with_noise, 2.5)
    assert "without changing something else" in message


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("[{training: {steps: 10}}]", "[{mechanism: {noise_multiplier: 2.5}, training: {steps: 10}}]"),
        ("\n  - training: {steps: 10}", "\n  - mechanism: {noise_multiplier: 2.5}\n    training: {steps: 10}"),
    ],
)
def test_a_mapping_that_begins_with_a_section_gets_the_key_before_it(phase, expected):
    text = flat({"phases": phase, "mechanism": None, "training": None})
    fresh, _ = changed(text, "mechanism", with_noise, 2.5, assumed=("mechanism.noise_multiplier=1",))
    assert fresh == text.replace(phase, expected)
