"""Editing a config in place: the new meaning, and no other byte; as a whole or not at all."""

import stat
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from dpcalc.config.edit import Rewrite, edited, write
from dpcalc.config.expand import Overrides
from dpcalc.config.load import load, load_text
from dpcalc.errors import InputError
from tests.config.texts import PATH, SAMPLES, corpus, flat, text_of
from tests.thinning import thinned

PHASES = {
    "mechanism": "{noise_multiplier: 1.5}  # of both",
    "training": None,
    "phases": "\n  - name: warm-up\n    training: {steps: 10}\n  - {name: main, training: {epochs: 1}}",
}


def with_noise(plan, *noises):
    """A plan with other noise, phase by phase; a mechanism without any stays."""
    phases = (
        phase if phase.noise_multiplier is None else phase.with_noise(noise)
        for phase, noise in zip(plan.phases, noises, strict=True)
    )
    return replace(plan, phases=tuple(phases))


def with_draw(plan, changed):
    """A plan whose outermost draws are changed by a function."""
    phases = []
    for phase in plan.phases:
        outer, *inner = phase.hierarchy.levels
        levels = (replace(outer, scheme=changed(outer.scheme)), *inner)
        phases.append(replace(phase, hierarchy=replace(phase.hierarchy, levels=levels)))
    return replace(plan, phases=tuple(phases))


def rate(text):
    return lambda scheme: replace(scheme, probability=Fraction(text))


def changed(text, section, change, *values, assumed=(), key=""):
    """The edited text and what was written."""
    before = load_text(text, path=PATH, key=key, overrides=Overrides(assumed=assumed)).plan
    after = change(before, *values)
    fresh, written = edited(text, Rewrite(path=PATH, key=key, section=section, before=before, after=after))
    assert load_text(fresh, path=PATH, key=key).plan == after
    return fresh, written


def differing(old, new):
    """The stretch of each line that differs, for texts of equally many lines."""
    for one, other in zip(old.split("\n"), new.split("\n"), strict=True):
        if one != other:
            shorter = min(len(one), len(other))
            start = next((n for n in range(shorter) if one[n] != other[n]), shorter)
            stop = next((n for n in range(shorter - start) if one[-1 - n] != other[-1 - n]), shorter - start)
            yield one[start : len(one) - stop]


def drawn_otherwise(scheme):
    if hasattr(scheme, "bins"):
        return replace(scheme, bins=scheme.bins + 1)
    return rate("0.00123")(scheme) if hasattr(scheme, "probability") else replace(scheme, size=scheme.size + 1)


CHANGES = {
    "mechanism": lambda plan: with_noise(plan, *(7.123 + n for n, _ in enumerate(plan.phases))),
    "training": lambda plan: replace(
        plan, phases=tuple(replace(phase, steps=7_777 + n) for n, phase in enumerate(plan.phases))
    ),
    "sampling": lambda plan: with_draw(plan, drawn_otherwise),
}


@pytest.mark.parametrize(("sample", "section"), thinned(product(sorted(SAMPLES.glob("*.yaml")), CHANGES), 40))
def test_every_sample(sample, section):
    old = sample.read_text(encoding="utf-8")
    before = load(str(sample)).plan
    drawn = before.phases[0].hierarchy
    if section == "sampling" and (drawn.episodes or drawn.levels[0].scheme.name == "all"):
        pytest.skip("no draw to change")
    after = CHANGES[section](before)
    new, written = edited(old, Rewrite(path=str(sample), section=section, before=before, after=after))
    assert load_text(new, path=str(sample)).plan == after
    assert written
    for stretch in differing(old, new):
        assert not set("#{}\n") & set(stretch)  # comments and all else are where they were


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
    fresh, written = changed(text, "sampling", with_draw, rate("0.02"))  # of which an epoch has other steps
    assert fresh == text.replace("rate: 0.01", "rate: 0.02").replace("epochs: 1", "steps: 100")
    assert written == (f"{PATH}:5: steps: 100 (was epochs: 1)", f"{PATH}:3: rate: 0.02 (was rate: 0.01)")
    fresh, written = changed(flat(PHASES), "mechanism", with_noise, 2.0, 3.0)
    expected = flat(PHASES).replace("warm-up", "warm-up\n    mechanism: {noise_multiplier: 2}")
    assert fresh == expected.replace("name: main", "name: main, mechanism: {noise_multiplier: 3}")
    assert all("phases[" in each for each in written)


ANCHOR = "comes from the anchor `&"
INSIDE = "train:\n  sigma: 1.1\n  dp:\n" + "".join(
    f"    {line}\n" for line in flat({"mechanism": "{noise_multiplier: '${train.sigma}'}"}).splitlines()
)


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
        (None, "is the reference `${train.sigma}`"),
    ],
)
def test_what_is_left_alone(changes, words):
    text, key = (INSIDE, "train.dp") if changes is None else (flat(changes), "")
    assumed = () if key else ("mechanism.noise_multiplier=1",)
    with pytest.raises(InputError, match="nothing was changed") as caught:
        changed(text, "mechanism", with_noise, 2.5, assumed=assumed, key=key)
    assert words in str(caught.value)
    place = f"{key}.mechanism" if key else "mechanism"
    assert f"By hand: `{place}.noise_multiplier: 2.5`" in str(caught.value)


@pytest.mark.parametrize(
    ("draw", "fraction", "words"),
    [
        ("rate: 0.5", "1/3", "1/3 is no decimal number"),
        ("rate: 0.5", f"0.{'1' * 30}", "has too many digits"),
        ("*key : 256", "0.1234567", "written in a way that cannot be changed safely"),
    ],
)
def test_a_rate_that_no_file_states_is_not_written(draw, fraction, words):
    text = flat({"x-k": "&key expected", "sampling": f"{{scheme: poisson, {draw}}}"})
    with pytest.raises(InputError, match=words):
        changed(text, "sampling", with_draw, rate(fraction))


def test_an_edit_that_makes_no_config_is_not_written():
    text = flat({"privacy": "{adjacency: add-remove, delta: '${mechanism.noise_multiplier}'}"})
    with pytest.raises(InputError, match="without changing something else"):
        changed(text.replace("1.1", "0.5"), "mechanism", with_noise, 2.0)


# Writing the file.


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "folder" / "run.yaml"
    path.parent.mkdir()
    path.write_bytes(
        b"\xef\xbb\xbf" + flat({"mechanism": "{noise_multiplier: 1.1}  # é"}).replace("\n", "\r\n").encode()
    )
    return path


def rewritten(path, *, assignments=()):
    before = load(str(path), assignments=assignments).plan
    return write(Rewrite(path=str(path), section="mechanism", before=before, after=with_noise(before, 2.5)))


def test_the_file_is_written(file, tmp_path):
    """Behind its byte order mark and a link, with its permissions."""
    old = file.read_bytes()
    file.chmod(0o640)
    (tmp_path / "link.yaml").symlink_to(file)
    assert rewritten(tmp_path / "link.yaml")[0].endswith(":4: noise_multiplier: 2.5 (was noise_multiplier: 1.1)")
    assert (tmp_path / "link.yaml").is_symlink()
    assert file.read_bytes() == old.replace(b"1.1", b"2.5")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["run.yaml"]


def failing(cause):
    def fail(*_, **__):
        raise cause

    return fail


@pytest.mark.parametrize(
    ("broken", "cause", "words"),
    [
        ("tempfile.mkstemp", PermissionError(13, "Permission denied"), "cannot be written: Permission denied; nothing"),
        ("os.fsync", OSError(28, "No space left on device"), "nothing was changed"),
        ("os.fsync", KeyboardInterrupt("stopped"), "stopped"),
    ],
)
def test_an_accident_leaves_the_old_file_and_nothing_else(file, monkeypatch, broken, cause, words):
    old = file.read_bytes()
    monkeypatch.setattr(broken, failing(cause))
    with pytest.raises((InputError, KeyboardInterrupt), match=words):
        rewritten(file)
    assert file.read_bytes() == old
    assert [path.name for path in file.parent.iterdir()] == ["run.yaml"]


def test_what_is_not_written(file):
    with pytest.raises(InputError, match="one that options change"):
        rewritten(file, assignments=["training.steps=7"])
    old = file.read_bytes()
    before = load(str(file)).plan
    file.write_bytes(old.replace(b"steps: 100", b"steps: 200"))
    with pytest.raises(InputError, match="expected a file that means this run"):
        write(Rewrite(path=str(file), section="mechanism", before=before, after=with_noise(before, 2.5)))
    file.write_bytes(old)
    file.chmod(0o444)
    with pytest.raises(InputError, match="read-only one; nothing was changed"):
        rewritten(file)
    assert file.read_bytes() == old
