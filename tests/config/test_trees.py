"""`data.tree` and sizes between two ends: what they mean, and every way to get them wrong."""

import itertools
import json
import random
import time
from fractions import Fraction

import pytest

from dpcalc.config.load import load, load_text
from dpcalc.config.normal import MAX_WRITTEN_COUNTS, normal_form
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.config.test_schema import accepted_by_schema
from tests.config.texts import PATH, errors, marked, plan, varied

TREE = "[[4, 2, 3], [4, 5]]"
LEVELS = "levels: [{name: clinic}, {name: patient}, {name: visit}]"
ONE, TWO = "{scheme: fixed, size: 1}", "{scheme: fixed, size: 2}"
CLINICS = {
    "version": "1",
    "data": f"{{{LEVELS}, tree: {TREE}}}",
    "sampling": f"{{clinic: {ONE}, patient: {TWO}, visit: {TWO}}}",
    "mechanism": "{noise_multiplier: 4, clip: clinic}",
    "training": "{steps: 100}",
    "privacy": "{unit: visit, adjacency: add-remove, delta: 1e-3}",
}


def clinics(changes):
    return varied(CLINICS, changes)


def tree(text):
    return clinics({"data": f"{{{LEVELS}, tree: {text}}}"})


def users(sizes, changes=()):
    """A file of 50 users with examples of some sizes."""
    return clinics(
        {
            "data": f"{{levels: [{{name: user, count: 50}}, {{name: example, {sizes}}}]}}",
            "sampling": "{user: {scheme: fixed, size: 5}, example: {scheme: fixed, size: 3}}",
            "mechanism": "{noise_multiplier: 4}",
            "privacy": "{unit: example, adjacency: add-remove, delta: 1e-4}",
            **dict(changes),
        }
    )


def sizes_of(text):
    hierarchy = plan(text).phases[0].hierarchy
    return [(level.min_count, level.count) for level in hierarchy.levels], hierarchy.tree


def test_an_inline_tree():
    sizes, found = sizes_of(clinics({}))
    assert sizes == [(2, 2), (2, 3), (2, 5)]
    assert found.sizes == ((2,), (3, 2), (4, 2, 3, 4, 5))


def test_sizes_between_two_ends_in_both_spellings():
    for text in ("min: 5, max: 64", "count: {min: 5, max: 64}"):
        assert sizes_of(users(text)) == ([(50, 50), (5, 64)], None)
    assert sizes_of(users("min: 5, max: 5")) == sizes_of(users("count: 5"))


def test_what_is_set_stands_where_the_file_says_it():
    text = users("count: {min: 5, max: 64}")
    for assignment, sizes in (("count.max=70", (5, 70)), ("count=9", (9, 9)), ("count={min: 4, max: 8}", (4, 8))):
        found = plan(text, [f"data.levels[1].{assignment}"]).phases[0].hierarchy.level(2)
        assert (found.min_count, found.count) == sizes
    found = plan(clinics({}), ["data.tree=[[3, 3], [4]]", "sampling.patient.size=1"]).phases[0].hierarchy
    assert found.units(3) == 10


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_tree_in_a_file(tmp_path, wrapped, bom):
    counts = json.loads(TREE)
    content = {"levels": ["clinic", "patient", "visit"], "tree": counts} if wrapped else counts
    (tmp_path / "counts.json").write_text(bom + json.dumps(content), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    found = load(str(tmp_path / "run.yaml"))
    assert found.plan == plan(clinics({}))
    assert found.config_hash == load_text(clinics({}), path=PATH).config_hash


def refusal(tmp_path, content, name="counts.json", written="counts.json"):
    """The one error of a config whose tree is in a file."""
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    (tmp_path / "run.yaml").write_text(tree(f"{{file: {written}}}"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "run.yaml"))
    (found,) = caught.value.diagnostics
    assert (found.path, found.line) == (str(tmp_path / "run.yaml"), 2)
    return found


FILES = [
    (None, "DPC110", "no such file"),
    ("", "DPC110", "cannot be read as JSON"),
    ("[[4, 2", "DPC110", "cannot be read as JSON"),
    (b"\xff\xfe", "DPC110", "cannot be read as JSON"),
    ("[" * 100_000, "DPC111", "nested too deeply"),
    ("[[" + "9" * 5000 + "]]", "DPC110", "cannot be read as JSON"),
    (" " * (16 * 1024 * 1024 + 1), "DPC111", "larger than 16384 KiB"),
    ("{}", "DPC103", "has no `tree`"),
    ('{"counts": [[1]]}', "DPC101", "`counts`"),
    ('{"tree": [[1]], "tree": [[2]]}', "DPC101", "`tree` stands there more than once"),
    ('{"levels": ["a"], "tree": [[1]]}', "DPC107", "other levels than clinic, patient, visit"),
    ("[[4, 2.0, 3]]", "DPC102", "tree[0][1] must be a whole number, how many of level visit, got 2.0"),
    ("[[4, true, 3]]", "DPC102", "tree[0][1] must be a whole number"),
    ('[[4, "2", 3]]', "DPC102", "tree[0][1] must be a whole number"),
    ("[[4, NaN]]", "DPC102", "tree[0][1] must be a whole number"),
    ("[[4, null]]", "DPC102", "tree[0][1] must be a whole number"),
    ("[[4, 0]]", "DPC106", "tree[0][1] must be at least 1"),
    ("[[4, -3]]", "DPC106", "tree[0][1] must be at least 1"),
    ("[[4], []]", "DPC106", "tree[1] must be at least one patient, got an empty list"),
    ("[[4], 3]", "DPC102", "tree[1] must be a list with an entry for each patient, got 3"),
    ("[[4], [[3]]]", "DPC102", "tree[1][0] must be a whole number, how many of level visit, got a list"),
    ('{"tree": {"a": 3}}', "DPC102", "tree must be a list with an entry for each clinic"),
    ("7", "DPC102", "tree must be a list with an entry for each clinic, got 7"),
]


@pytest.mark.parametrize(("content", "code", "phrase"), FILES)
def test_what_is_wrong_with_a_file_stands_at_its_name(tmp_path, content, code, phrase):
    found = refusal(tmp_path, content)
    assert found.code == code
    assert phrase in found.message


@pytest.mark.parametrize(
    ("written", "phrase"),
    [
        ("../../counts.json", "outside the repository"),
        ("/etc/counts.json", "absolute path"),
        ("counts.csv", "is no JSON file"),
        ("counts.yaml", "is no JSON file"),
    ],
)
def test_where_a_file_may_not_be(tmp_path, written, phrase):
    (tmp_path / "counts.yaml").write_text(TREE, encoding="utf-8")
    assert phrase in refusal(tmp_path, None, written=written).message


def test_many_faults_of_a_file_are_cut(tmp_path):
    (tmp_path / "counts.json").write_text(json.dumps([[0] * 5000]), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "run.yaml"))
    assert len(caught.value.diagnostics) == 10


SIZE_2 = "{clinic: {scheme: fixed, size: 1}, patient: {scheme: fixed, size: 2}, visit: {scheme: fixed, size: %s}}"
CASES = [
    ("number for a list", tree("[[4, 2], §3]"), [("DPC102", "`data.tree[1]` must be a list with an entry for each")]),
    ("list for a number", tree("[[4, §[2]], [3]]"), [("DPC102", "`data.tree[0][1]` must be a whole number")]),
    ("fraction", tree("[[4, §2.5], [3]]"), [("DPC102", "`data.tree[0][1]` must be a whole number")]),
    ("word", tree("[[4, §many], [3]]"), [("DPC102", "got many")]),
    ("quoted", tree("[[4, §'2'], [3]]"), [("DPC102", "`data.tree[0][1]` must be a whole number")]),
    ("zero", tree("[[4, §0], [3]]"), [("DPC106", "`data.tree[0][1]` must be at least 1")]),
    ("nothing under a unit", tree("[[4, 2], §[]]"), [("DPC106", "`data.tree[1]` must be at least one patient")]),
    (
        "no units",
        clinics({"data": f"{{{LEVELS}, §tree: []}}"}),
        [("DPC106", "`data.tree` must be at least one clinic")],
    ),
    ("mapping inside", tree("[[4, §{a: 3}], [3]]"), [("DPC102", "`data.tree[0][1]`")]),
    ("too many", tree("[[4, §2e15], [3]]"), [("DPC106", "at most 1e+15")]),
    ("several faults", tree("[[§0, §-1], [§x]]"), [("DPC106", "[0][0]"), ("DPC106", "[0][1]"), ("DPC102", "[1][0]")]),
    ("hole", tree("[[4, §'???'], [3]]"), [("DPC110", "`data.tree[0][1]`")]),
    ("a word for all", tree("§many"), [("DPC102", "`data.tree` must be a list of counts")]),
    ("unknown key", tree("{file: a.json, §sheet: 2}"), [("DPC101", "unknown key `sheet` in `data.tree`")]),
    ("no file", clinics({"data": f"{{{LEVELS}, §tree: {{}}}}"}), [("DPC103", "`data.tree.file` is missing")]),
    ("file of no name", tree("{file: §3}"), [("DPC102", "`data.tree.file` must be the name of a JSON file")]),
    (
        "count and tree",
        clinics(
            {"data": f"{{levels: [{{name: clinic}}, {{name: patient, §count: 3}}, {{name: visit}}], tree: {TREE}}}"}
        ),
        [("DPC107", "`count` in `data.levels[1]` and `data.tree` both say")],
    ),
    (
        "one level",
        clinics(
            {
                "data": "{levels: [{name: visit}], §tree: [3]}",
                "sampling": "{visit: {scheme: all}}",
                "mechanism": "{noise_multiplier: 4}",
            }
        ),
        [("DPC102", "`data.tree` must be over two levels")],
    ),
    (
        "examples and tree",
        clinics(
            {
                "data": "{examples: 9, §tree: [3]}",
                "sampling": "{scheme: all}",
                "mechanism": "{noise_multiplier: 4}",
                "privacy": "{delta: 1e-3, adjacency: add-remove}",
            }
        ),
        [("DPC102", "`data.tree` must be over two levels")],
    ),
    (
        "more than the smallest holds",
        clinics({"sampling": SIZE_2 % "§3"}),
        [("DPC106", "more than the 2 of `data.tree[0][1]`")],
    ),
    (
        "more than the smallest clinic",
        clinics({"sampling": SIZE_2.replace("size: 2", "size: §3") % 1}),
        [("DPC106", "more than the 2 of `data.tree[1]`")],
    ),
    (
        "more than all clinics",
        clinics({"sampling": SIZE_2.replace("size: 1", "size: §9") % 1}),
        [("DPC106", "more than the count 2 of level `clinic`")],
    ),
    (
        "expected without a rate",
        clinics({"sampling": "{clinic: {scheme: poisson, expected: 1}, visit: {scheme: poisson, §expected: 1}}"}),
        [("DPC107", "gives no rate: level `visit` has 2 to 5 units")],
    ),
    ("ends out of order", users("min: §9, max: 5"), [("DPC106", "`data.levels[1].min` is 9, more than the 5")]),
    (
        "one end",
        clinics({"data": "{levels: [{name: clinic, count: 3}, §{name: patient, min: 2}, {name: visit, count: 2}]}"}),
        [("DPC103", "`data.levels[1].max` is missing")],
    ),
    (
        "the other end",
        users("count: {max: 9}").replace("{name: example", "§{name: example"),
        [("DPC103", "`data.levels[1].min`")],
    ),
    ("count and ends", users("min: 2, max: 9, §count: 3"), [("DPC107", "both say how many there are")]),
    ("count twice over", users("min: 2, §count: {min: 3, max: 4}"), [("DPC102", "got a mapping")]),
    ("size of none", users("min: §0, max: 5"), [("DPC106", "at least 1")]),
    ("no size at all", users("x-note: 3").replace("{name: example", "§{name: example"), [("DPC103", "count")]),
    (
        "draw above the least",
        users("min: 2, max: 9").replace("size: 3", "size: §3"),
        [("DPC106", "more than the smallest count 2")],
    ),
    (
        "epochs of who knows how many",
        users(
            "min: 3, max: 9",
            {"sampling": "{user: {scheme: all}, example: {scheme: fixed, size: 3}}", "training": "{§epochs: 2}"},
        ),
        [("DPC107", "is no number of steps")],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(text, found, id=name) for name, text, found in CASES])
def test_code_place_and_words(text, expected):
    clean, places = marked(text)
    found = errors(clean)
    assert [diagnostic.code for diagnostic in found] == [code for code, _ in expected]
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found] == places
    for diagnostic, (_, phrase) in zip(found, expected, strict=True):
        assert phrase in f"{diagnostic.message} | {diagnostic.hint}"


def test_the_schema_knows_trees_and_ends():
    for text in (clinics({}), tree("{file: a.json}"), users("min: 5, max: 6"), users("count: {min: 5, max: 6}")):
        assert accepted_by_schema(text)
    refused = [name for name, text, _ in CASES if not accepted_by_schema(marked(text)[0])]
    assert {"count and tree", "one level", "no units", "one end", "count and ends", "unknown key"} <= set(refused)


def test_epochs_count_what_there_is():
    whole = "{clinic: {scheme: all}, patient: {scheme: fixed, size: 2}, visit: {scheme: fixed, size: 1}}"
    assert plan(clinics({"training": "{epochs: 2}"})).steps == 4  # 1 of 2 clinics
    assert plan(clinics({"sampling": whole, "training": "{epochs: 2}"})).steps == 3  # 4 of 5 patients: 2.5 steps
    assert plan(users("min: 3, max: 9", {"training": "{epochs: 2}"})).steps == 20  # 5 of 50 users


def test_draws_are_those_of_the_file():
    hierarchy = (
        plan(clinics({"sampling": SIZE_2.replace("fixed, size: 1", "poisson, expected: 1") % 2})).phases[0].hierarchy
    )
    assert [level.scheme for level in hierarchy.levels] == [
        Poisson(probability=Fraction(1, 2)),
        Fixed(size=2),
        Fixed(size=2),
    ]


def digest(text):
    return load_text(text, path=PATH).config_hash


def test_the_hash_is_of_the_tree_up_to_order():
    assert digest(clinics({})) == digest(tree("[[5, 4], [2, 3, 4]]"))
    texts = [
        clinics({}),
        tree("[[4, 2, 3], [4, 6]]"),
        tree("[[4, 2, 4], [3, 5]]"),
        tree("[[4, 2], [3, 4, 5], [3, 3]]"),
        users("count: 5"),
        users("min: 4, max: 5"),
        users("min: 3, max: 5"),
    ]
    assert all(digest(one) != digest(other) for one, other in itertools.combinations(texts, 2))


def test_a_tree_of_equal_sizes_is_the_simple_case():
    equal = "levels: [{name: clinic, count: 2}, {name: patient, count: 3}, {name: visit, count: 4}]"
    simple = clinics({"data": f"{{{equal}}}"})
    text = tree("[[4, 4, 4], [4, 4, 4]]")
    assert plan(text) == plan(simple)
    assert digest(text) == digest(simple)


def test_delta_is_held_against_the_units_of_the_whole_tree():
    for unit, units in (("clinic", 2), ("patient", 5), ("visit", 18)):
        for delta, warned in ((f"{1 / units:.3f}", True), (f"{0.9 / units:.3f}", False)):
            text = clinics({"privacy": f"{{unit: {unit}, adjacency: add-remove, delta: {delta}}}"})
            codes = [diagnostic.code for diagnostic in load_text(text, path=PATH).diagnostics]
            assert ("DPC203" in codes) == (warned and float(delta) * units >= 1)


def test_the_normal_form_means_the_same():
    half = "{clinic: {scheme: all}, patient: {scheme: poisson, rate: 0.5}, visit: {scheme: poisson, rate: 0.2}}"
    for text in (clinics({}), users("min: 5, max: 64"), clinics({"sampling": half})):
        assert plan(normal_form(plan(text))) == plan(text)
        assert digest(normal_form(plan(text))) == digest(text)


def test_200_000_counts_in_a_file(tmp_path):
    """The promise is three seconds for reading; ten here, for slow machines."""
    rng = random.Random(0)  # noqa: S311  sizes, no secrets
    counts = [[rng.randint(2, 60) for _ in range(rng.randint(2, 38))] for _ in range(10_000)]
    assert sum(map(len, counts)) > 190_000
    (tmp_path / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    start = time.process_time()
    found = load(str(tmp_path / "run.yaml")).plan
    assert time.process_time() - start < 10
    assert found.phases[0].hierarchy.units(2) == sum(map(len, counts))
    with pytest.raises(InputError, match=f"at most {MAX_WRITTEN_COUNTS} units"):
        normal_form(found)
