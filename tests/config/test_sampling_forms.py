"""Draws, groups and constructed tasks: what short forms, phases and `--set` make of them, and how long they train."""

from fractions import Fraction

import pytest

from dpcalc.config.load import load_text
from dpcalc.sampling.hierarchy import Episodes
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement
from tests.config.texts import classes, errors, flat, nested, plan


def levels(text, assignments=()):
    """(scheme, steps a draw is held) of every level, phase by phase."""
    phases = plan(text, assignments).phases
    return [[(level.scheme, level.redraw_every) for level in phase.hierarchy.levels] for phase in phases]


@pytest.mark.parametrize("scheme", [WithReplacement, Shuffle, Fixed])
def test_a_batch_size_is_the_size(scheme):
    text = flat({"sampling": f"{{scheme: {scheme.name}}}", "training": "{steps: 3, batch_size: 256}"})
    assert levels(text) == [[(scheme(size=256), 1)]]


def test_more_draws_than_there_are_with_replacement():
    assert levels(flat({"sampling": "{scheme: with-replacement, size: 70_000}"})) == [
        [(WithReplacement(size=70_000), 1)]
    ]


def test_a_shuffled_batch_of_everything_is_all():
    loaded = load_text(flat({"sampling": "{scheme: shuffle, size: 60_000}"}), path="f")
    assert loaded.plan.phases[0].hierarchy.level(1).scheme == All()


def test_a_short_draw_may_be_held():
    assert levels(flat({"sampling": "{scheme: all, redraw_every: 10}"})) == [[(All(), 10)]]


@pytest.mark.parametrize(
    ("sampling", "epochs", "steps"),
    [
        ("scheme: with-replacement, size: 256", 1, 235),  # 60000 / 256 = 234.4
        ("scheme: with-replacement, size: 256", 2, 469),
        ("scheme: shuffle, size: 256", 1, 235),
        ("scheme: shuffle, size: 256", 2, 470),  # passes of 235 steps, the last batch of each is smaller
        ("scheme: shuffle, size: 256", 0.5, 118),
        ("scheme: shuffle, size: 60_000", 3, 3),
        ("scheme: shuffle, size: 256, drop_last: true", 1, 234),
        ("scheme: shuffle, size: 256, drop_last: true", 2.5, 585),
        ("scheme: shuffle, size: 256, drop_last: false", 1, 235),
        ("scheme: fixed, size: 256, redraw_every: 10", 2, 469),
    ],
)
def test_epochs(sampling, epochs, steps):
    assert plan(flat({"sampling": f"{{{sampling}}}", "training": f"{{epochs: {epochs}}}"})).steps == steps


def test_epochs_of_shuffled_units_of_a_tree_are_those_of_the_largest_frame():
    text = nested(
        {
            "data": "{levels: [{name: task}, {name: example}], tree: [9, 23, 7]}",
            "sampling": "{task: {scheme: all}, example: {scheme: shuffle, size: 5}}",
            "training": "{epochs: 2}",
        }
    )
    assert plan(text).steps == 10


def test_phases_keep_the_period_where_the_scheme_can_be_held():
    text = nested(
        {
            "sampling": "{task: {scheme: fixed, size: 4, redraw_every: 10}}",
            "phases": "[{}, {sampling: {task: {size: 8}}}, {sampling: {task: {scheme: poisson, rate: 0.5}}}, "
            "{sampling: {task: {scheme: shuffle, size: 9}}}]",
        }
    )
    assert [phase[0] for phase in levels(text)] == [
        (Fixed(size=4), 10),
        (Fixed(size=8), 10),
        (Poisson(probability=0.5), 10),
        (Shuffle(size=9), 1),
    ]


def test_phases_keep_the_size_where_the_scheme_takes_one():
    text = flat(
        {
            "sampling": "{scheme: fixed, size: 4}",
            "phases": "[{sampling: {scheme: with-replacement}}, {sampling: {scheme: shuffle}}]",
        }
    )
    assert levels(text) == [[(WithReplacement(size=4), 1)], [(Shuffle(size=4), 1)]]


def test_phases_and_constructed_tasks_drive_each_other_out():
    text = classes(
        {
            "phases": "[{}, {sampling: {episodes: {tasks: 8}}}, {sampling: {class: {scheme: fixed, size: 5}}, "
            "mechanism: {clip: class}}]"
        }
    )
    first, second, third = plan(text).phases
    assert first.hierarchy.episodes == Episodes(tasks=4, ways=5, shots=1, queries=15)
    assert second.hierarchy.episodes == Episodes(tasks=8, ways=5, shots=1, queries=15)
    assert (third.hierarchy.episodes, third.hierarchy.level(1).scheme) == (None, Fixed(size=5))
    drawn = classes(
        {"sampling": "{class: {scheme: all}, image: {scheme: fixed, size: 2}}", "mechanism": "{noise_multiplier: 6}"}
    )
    built = drawn + "phases: [{}, {sampling: {episodes: {tasks: 1, ways: 2, shots: 3, queries: 0}}}]\n"
    assert [phase.hierarchy.episodes for phase in plan(built).phases] == [
        None,
        Episodes(tasks=1, ways=2, shots=3, queries=0),
    ]


def test_set_changes_one_part():
    assert plan(classes({}), ["sampling.episodes.tasks=9"]).phases[0].hierarchy.episodes.tasks == 9
    assert levels(nested({}), ["sampling.task.redraw_every=10"])[0][0] == (Fixed(size=4), 10)
    assert plan(flat({}), ["privacy.group_size=5"]).group_size == 5
    assert levels(flat({}), ["sampling.scheme=shuffle", "sampling.size=3"]) == [[(Shuffle(size=3), 1)]]
    (error,) = errors(flat({}), ["privacy.group_size=60_001"])
    assert error.path.startswith("--set")


@pytest.mark.parametrize(("clip", "number"), [("batch", 0), ("task", 1), ("image", 2)])
def test_what_is_clipped_where_tasks_are_constructed(clip, number):
    (phase,) = plan(classes({"mechanism": f"{{noise_multiplier: 6, clip: {clip}}}"})).phases
    assert (phase.clip, phase.clip_names[number]) == (number, clip)


def test_records_are_clipped_where_nothing_is_said():
    (phase,) = plan(classes({"mechanism": "{noise_multiplier: 6}"})).phases
    assert phase.clip == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (flat({"sampling": "{scheme: §shuffle, size: 3}"}), [("DPC202", "note", 3, 20)]),
        (flat({"sampling": "{scheme: shuffle, size: 60_000}"}), []),
        (flat({"sampling": "{scheme: with-replacement, size: 3}"}), []),
    ],
)
def test_what_is_not_claimed_for_a_shuffle_is_noted(text, expected):
    found = load_text(text.replace("§", ""), path="f").diagnostics
    assert [(one.code, str(one.severity), one.line, one.column) for one in found] == expected


def test_rules_of_periods_hold_between_neighbours():
    text = nested(
        {"sampling": "{task: {scheme: all, redraw_every: 12}, example: {scheme: fixed, size: 5, redraw_every: 4}}"}
    )
    assert [held for _, held in levels(text)[0]] == [12, 4]


def test_the_last_batch_is_dropped_by_shuffles_alone():
    dropped = flat({"sampling": "{scheme: shuffle, size: 3, drop_last: true}"})
    assert levels(dropped) == [[(Shuffle(size=3, drop_last=True), 1)]]
    assert levels(dropped, ["sampling.drop_last=false"]) == [[(Shuffle(size=3), 1)]]
    assert levels(dropped, ["sampling.size=4"]) == [[(Shuffle(size=4, drop_last=True), 1)]]
    assert levels(dropped, ["sampling.scheme=fixed"]) == [[(Fixed(size=3), 1)]]
    assert levels(flat({}), ["sampling.scheme=shuffle", "sampling.size=3", "sampling.drop_last=true"]) == [
        [(Shuffle(size=3, drop_last=True), 1)]
    ]


def test_poisson_batches_alone_are_cut():
    rate = Fraction(1, 4)
    cut = flat({"sampling": "{scheme: poisson, rate: 0.25, max_batch_size: 300}"})
    assert levels(cut) == [[(CappedPoisson(probability=rate, max_batch_size=300), 1)]]
    assert levels(cut, ["sampling.max_batch_size=299"]) == [[(CappedPoisson(probability=rate, max_batch_size=299), 1)]]
    assert levels(cut, ["sampling.scheme=all"]) == [[(All(), 1)]]
    plain = flat({"sampling": "{scheme: poisson, rate: 0.25}"})
    assert levels(plain, ["sampling.max_batch_size=300"]) == levels(cut)
    never = flat({"sampling": "{scheme: poisson, rate: 0.25, max_batch_size: 60_000}"})
    assert levels(never) == [[(Poisson(probability=rate), 1)]]
    assert load_text(never, path="f").config_hash == load_text(plain, path="f").config_hash


def test_a_lock_does_not_see_a_default():
    same = [flat({"sampling": f"{{scheme: shuffle, size: 256{more}}}"}) for more in ("", ", drop_last: false")]
    assert len({load_text(text, path="f").config_hash for text in same}) == 1


def limited(size, *, records="{min: 1, max: 70}", more=""):
    return nested(
        {
            "data": f"{{levels: [{{name: task, count: 200}}, {{name: example, count: {records}}}]}}",
            "sampling": f"{{task: {{scheme: fixed, size: 4}}, example: {{scheme: fixed, size: {size}{more}}}}}",
        }
    )


def test_at_most_a_number_of_each_parent():
    assert levels(limited("{at_most: 8}"))[0][1] == (Fixed(size=8, at_most=True), 1)
    assert levels(limited("{at_most: 8}"), ["sampling.example.size.at_most=5"])[0][1] == (
        Fixed(size=5, at_most=True),
        1,
    )
    assert levels(limited("{at_most: 8}"), ["sampling.example.size=1"])[0][1] == (Fixed(size=1), 1)
    assert levels(limited("1"), ["sampling.example.size={at_most: 8}"])[0][1] == (Fixed(size=8, at_most=True), 1)


@pytest.mark.parametrize(
    ("limit", "plain", "records"),
    [
        ("{at_most: 8}", "8", "20"),
        ("{at_most: 20}", "20", "20"),
        ("{at_most: 21}", "20", "20"),
        ("{at_most: 1}", "1", "{min: 1, max: 70}"),
        ("{at_most: 5}", "5", "{min: 5, max: 70}"),
    ],
)
def test_a_limit_that_every_parent_reaches_is_a_size(limit, plain, records):
    one, other = (load_text(limited(size, records=records), path="f") for size in (limit, plain))
    assert (one.plan, one.config_hash) == (other.plan, other.config_hash)


def test_a_limit_that_no_parent_reaches_is_all():
    assert levels(limited("{at_most: 70}"))[0][1] == (All(), 1)
    assert levels(limited("{at_most: 71}"))[0][1] == (All(), 1)


def test_a_limit_is_another_draw_than_a_size():
    hashes = {load_text(limited(size), path="f").config_hash for size in ("1", "{at_most: 2}", "{at_most: 3}")}
    assert len(hashes) == 3


def test_epochs_of_a_limit_count_what_is_drawn_in_a_tree():
    text = nested(
        {
            "data": "{levels: [{name: task}, {name: example}], tree: [1, 2, 9]}",
            "sampling": "{task: {scheme: all}, example: {scheme: fixed, size: {at_most: 3}}}",
            "training": "{epochs: 5}",
        }
    )
    assert plan(text).steps == 10  # 5 * 12 / (1 + 2 + 3)


def test_a_shuffle_of_all_units_is_scheme_all_below_a_draw():
    shuffled, whole = (
        plan(nested({"sampling": f"{{task: {{scheme: fixed, size: 4}}, example: {draw}}}"}))
        for draw in ("{scheme: shuffle, size: 20}", "{scheme: all}")
    )
    assert shuffled == whole
