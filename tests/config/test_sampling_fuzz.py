"""Random draws, periods, groups and tasks: either every error has its place, or the plan has its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.config.expand import normal_form
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.planner.composition import protected_units

NAMES = ("class", "user", "image")
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
        return f"{{levels: [{', '.join(f'{{name: {name}}}' for name in NAMES[:2])}], tree: {sizes}}}"
    counts = [draw(st.sampled_from(["3", "5", "{min: 3, max: 6}"])) for _ in range(depth)]
    levels = ", ".join(f"{{name: {name}, count: {count}}}" for name, count in zip(NAMES, counts, strict=False))
    return f"{{levels: [{levels}]}}"


@st.composite
def texts(draw):
    """A config with random sampling."""
    depth = draw(st.integers(1, 3))
    names = NAMES[:depth]
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


def loaded(text):
    """The config, or None where every error has its place."""
    try:
        return load_text(text, path="f")
    except ConfigError as error:
        nowhere = [one for one in error.diagnostics if not one.line]
    assert not nowhere, text
    return None


@pytest.mark.heavy
@given(texts())
def test_an_error_with_its_place_or_a_bound(text):
    found = loaded(text)
    if found is None:
        return
    for one in protected_units(found.plan):
        assert all(bounds and bounds[0].bound.inclusion > 0 for bounds in one.choices)
    again = loaded(normal_form(found.plan))
    assert (again.plan, again.config_hash) == (found.plan, found.config_hash)
