"""Editing in place: the new meaning, and no other byte."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from dpcalc.config.edit import Rewrite, edited
from dpcalc.config.expand import Overrides
from dpcalc.config.load import load, load_text
from dpcalc.errors import InputError
from dpcalc.sampling.schemes import All, BallsInBins, Poisson
from tests.config.texts import PATH, corpus, flat, text_of
from tests.thinning import thinned

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


@pytest.mark.parametrize(("sample", "section"), thinned(product(SAMPLES, CHANGES), 40))
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


PHASES = {
    "mechanism": "{noise_multiplier: 1.5}  # of both",
    "training": None,
    "phases": "\n  - name: warm-up\n    training: {steps: 10}\n  - {name: main, training: {epochs: 1}}",
}
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
NOISE = ("mechanism", with_noise)


@pytest.mark.parametrize("case", corpus("edits"), ids=lambda case: str(case["edit"]))
def test_the_edit_of_one_number(case):
    text, key = text_of(case), case.get("key", "")
    ((section, (old, new)),) = case["edit"].items()
    assert text.count(old) == 1
    after = load_text(text.replace(old, new), path=PATH, key=key).plan
    options = {"key": key, "assumed": (case["assumed"],) if "assumed" in case else ()}
    fresh, (written,) = changed(text, section, lambda _: after, **options)
    assert fresh == text.replace(old, new)
    assert written.startswith(f"{PATH}:")
    assert written.endswith(f" (was {old})") or f"(was {old})" not in written
    windows, _ = changed(text.replace("\n", "\r\n"), section, lambda _: after, **options)
    assert windows == fresh.replace("\n", "\r\n")


def test_the_edits_of_two_numbers():
    text = flat({"sampling": "{scheme: poisson, rate: 0.01}", "training": "{epochs: 1}"})
    fresh, written = changed(text, "sampling", with_draw, poisson("0.02"))  # of which an epoch has other steps
    assert fresh == text.replace("rate: 0.01", "rate: 0.02").replace("epochs: 1", "steps: 100")
    assert written == (f"{PATH}:5: steps: 100 (was epochs: 1)", f"{PATH}:3: rate: 0.02 (was rate: 0.01)")
    fresh, written = changed(flat(PHASES), "mechanism", with_noise, 2.0, 3.0)
    expected = flat(PHASES).replace("warm-up", "warm-up\n    mechanism: {noise_multiplier: 2}")
    assert fresh == expected.replace("name: main", "name: main, mechanism: {noise_multiplier: 3}")
    assert all("phases[" in each for each in written)


ANCHOR = "comes from the anchor `&"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x-base": "&base {noise_multiplier: 1.5}", "mechanism": "{<<: *base, max_grad_norm: 1}"}, ANCHOR),
        ({"x-base": "&base {noise_multiplier: 1.5}", "mechanism": "*base"}, ANCHOR),
        ({"x-n": "&noise 1.5", "mechanism": "{noise_multiplier: *noise}"}, ANCHOR),
        ({"mechanism": "{noise_multiplier: &noise 1.5}", "x-again": "*noise"}, ANCHOR),
        ({"mechanism": "&all {noise_multiplier: 1.5}", "x-again": "*all"}, ANCHOR),
        ({"x-base": "&base {max_grad_norm: 1}", "mechanism": "*base"}, "no place of its own"),
        ({"budget": '{epsilon: "${mechanism.noise_multiplier}"}'}, "without changing something else"),
    ],
)
def test_what_is_left_alone(changes, words):
    message = refused(flat(changes), *NOISE, 2.5, assumed=("mechanism.noise_multiplier=1",))
    assert words in message
    assert "By hand: `mechanism.noise_multiplier: 2.5`" in message


def test_a_reference_is_left_alone():
    message = refused(INSIDE.format(key="dp", noise='"${train.sigma}"'), *NOISE, 2.5, key="train.dp")
    assert "is the reference `${train.sigma}`" in message
    assert "By hand: `train.dp.mechanism.noise_multiplier: 2.5`" in message


@pytest.mark.parametrize(
    ("rate", "words"), [("1/3", "1/3 is no decimal number"), (f"0.{'1' * 30}", "has too many digits")]
)
def test_a_rate_that_no_file_states_is_not_written(rate, words):
    assert words in refused(flat({"sampling": "{scheme: poisson, rate: 0.5}"}), "sampling", with_draw, poisson(rate))
