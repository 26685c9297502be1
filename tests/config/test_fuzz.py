"""Whatever the text: a plan with bounds, or a ConfigError that can be printed."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcalc.config.expand import normal_form
from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError, visible
from dpcalc.planner.composition import protected_units
from tests.config import texts
from tests.config.texts import flat

SAMPLES = [path.read_text(encoding="utf-8") for path in sorted(texts.SAMPLES.glob("*.yaml"))]
WORDS = texts.corpus("fuzz")
PIECES = [*"{}[],:&*!|>'\"%@`?-#\n\t\r ~=<.\0\x1b\x85\u2028\u202e\ufeff\ud800é日", *WORDS["pieces"]]
KEYS = [*WORDS["keys"], "", "weird key"]
SCALARS = st.sampled_from(WORDS["values"])
TREES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from(KEYS), below), max_size=5).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"
        ),
    ),
    max_leaves=25,
)


def survives(text, assignments=()):
    """A text, or what loads one, is read or refused in sentences that can be printed."""
    try:
        loaded = load_text(text, path="f.yaml", assignments=assignments) if isinstance(text, str) else text()
        found = loaded.diagnostics
    except ConfigError as error:
        found = error.diagnostics
        assert found
    for item in found:
        printed = item.format()
        printed.encode("utf-8")
        assert all(line == visible(line) for line in printed.split("\n"))
        assert item.code.startswith("DPC")
        assert item.message
        if item.line is not None:
            assert item.column is not None
            assert item.width >= 1


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40).map("".join))
@example("? {a: b}\n: c")
@example("a: !<tag:yaml.org,2002:int> 3")
@example("&a : b")
@example("*a : b")
@example('"\\ud800": 1')
def test_random_text(text):
    survives(text)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.one_of(st.sampled_from(PIECES), st.text(max_size=8))),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_samples(text, edits):
    for place, removed, inserted in edits:
        start = int(place * len(text))
        text = text[:start] + inserted + text[start + removed :]
    survives(text)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), TREES), max_size=9))
def test_well_formed_nonsense(entries):
    survives("".join(f"{key}: {value}\n" for key, value in entries))


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.lists(st.sampled_from([*KEYS, "levels[0]", "phases[1]", "[0]"]), min_size=1, max_size=4), TREES),
        max_size=3,
    ),
)
def test_random_assignments(text, assignments):
    survives(text, [".".join(keys) + "=" + value for keys, value in assignments])


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_random_assignment_text(text):
    survives(SAMPLES[0], [text])


PATHS = st.lists(st.sampled_from([*"${}.:[]0/\\~ ", "x-a", "data", "a.yaml", "a.json", "..", "oc.env"]), max_size=12)


@settings(max_examples=40, deadline=None)
@given(PATHS.map("".join), st.sampled_from(["", "${", "a"]), st.sampled_from(["", "}"]))
def test_random_references(inner, start, stop):
    text = f"{start}{inner}{stop}".replace("'", "''")
    survives(f"training: {{steps: '{text}'}}\nx-a: {{data: 3}}\n", [f"privacy.delta='{text}'"])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([".json", ".toml", ".yaml"]),
    st.lists(
        st.sampled_from([*'{}[]",:=.#\n\t e-+0', "1e5", "true", "null", "nan", "a", "[a]\n", "[[a]]\n", '"""', "'"]),
        max_size=25,
    ).map("".join),
)
def test_random_documents(suffix, text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"f{suffix}").write_text(text, encoding="utf-8")
        Path(folder, "run.yaml").write_text(flat({"training": f"{{steps: '${{f{suffix}:a}}'}}"}), encoding="utf-8")
        survives(lambda: load(str(Path(folder, "run.yaml"))))


# Draws, periods, groups and tasks.

LEVELS = ("class", "user", "image")
SIZE, PERIOD = st.integers(1, 6), st.sampled_from([1, 1, 2, 4, 3])


@st.composite
def draw_of(draw):
    """How one level is drawn, as YAML."""
    scheme = draw(st.sampled_from(["fixed", "poisson", "with-replacement", "shuffle", "all"]))
    amount = {"poisson": f", rate: {draw(st.sampled_from(['0.5', '1', '0.01']))}", "all": ""}
    held = draw(PERIOD)
    period = f", redraw_every: {held}" if held > 1 else ""
    return f"{{scheme: {scheme}{amount.get(scheme, f', size: {draw(SIZE)}')}{period}}}"


@st.composite
def data_of(draw, depth):
    """Sizes of some levels, as YAML."""
    if depth == 2 and draw(st.booleans()):
        sizes = draw(st.lists(st.integers(2, 6), min_size=2, max_size=4))
        return f"{{levels: [{', '.join(f'{{name: {name}}}' for name in LEVELS[:2])}], tree: {sizes}}}"
    counts = [draw(st.sampled_from(["3", "5", "{min: 3, max: 6}"])) for _ in range(depth)]
    levels = ", ".join(f"{{name: {name}, count: {count}}}" for name, count in zip(LEVELS, counts, strict=False))
    return f"{{levels: [{levels}]}}"


@st.composite
def configs(draw):
    """A config with random sampling."""
    depth = draw(st.integers(1, 3))
    names = LEVELS[:depth]
    if draw(st.integers(0, 3)) == 0:
        numbers = (draw(st.integers(0, 4)) for _ in range(4))
        keys = ("tasks", "ways", "shots", "queries")
        sampling = f"{{episodes: {{{', '.join(f'{key}: {n}' for key, n in zip(keys, numbers, strict=True))}}}}}"
    else:
        sampling = f"{{{', '.join(f'{name}: {draw(draw_of())}' for name in names)}}}"
    clip = draw(st.sampled_from([*names, "batch", "task"]))
    unit, adjacency = draw(st.sampled_from(names)), draw(st.sampled_from(["add-remove", "replace-one", "zero-out"]))
    length = draw(st.sampled_from(["steps: 9", "epochs: 2"]))
    return (
        f"version: 1\ndata: {draw(data_of(depth))}\nsampling: {sampling}\n"
        f"mechanism: {{noise_multiplier: 9, clip: {clip}}}\ntraining: {{{length}}}\n"
        f"privacy: {{unit: {unit}, adjacency: {adjacency}, delta: 0.001, group_size: {draw(st.integers(1, 5))}}}\n"
    )


@pytest.mark.heavy
@given(configs())
def test_an_error_with_its_place_or_a_bound(text):
    try:
        found = load_text(text, path="f").accepted()
    except ConfigError as error:
        nowhere = [one for one in error.diagnostics if not one.line]
        assert nowhere == [], text
        return
    for one in protected_units(found.plan):
        assert all(bounds and bounds[0].bound.inclusion > 0 for bounds in one.choices)
    again = load_text(normal_form(found.plan), path="f")
    assert (again.plan, again.config_hash) == (found.plan, found.config_hash)
