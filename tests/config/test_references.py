"""`${...}`: what it leads to, and everything that it must not lead to."""

import os
import time
from fractions import Fraction

import pytest

from dpcalc.config import ConfigError, load, load_text
from dpcalc.config.references import MAX_CHAIN, MAX_FILES
from dpcalc.config.source import MAX_BYTES
from tests.config.texts import errors, flat, marked, plan


@pytest.fixture
def repository(tmp_path):
    """A git repository with a config in `configs/`, in a directory that is not the repository."""

    def made(text, **files):
        root = tmp_path / "repository"
        (root / ".git").mkdir(parents=True)
        (root / "configs").mkdir()
        for name, content in files.items():
            path = root / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        path = root / "configs" / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return made


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    (found,) = caught.value.diagnostics
    return found


def steps(reference):
    return flat({"training": f"{{steps: '{reference}'}}"})


@pytest.mark.parametrize(
    "value", ["${x-run.steps}", '"${x-run.steps}"', "'${x-run.steps}'", " ${x-run.steps} ", '" ${ x-run.steps } "']
)
def test_quoted_or_not(value):
    text = flat({"training": f"\n  steps: {value}"}) + "x-run: {steps: 1_234}\n"
    assert plan(text).steps == 1234


@pytest.mark.parametrize("path", ["x-a.b[1].c", "x-a.b.1.c", "x-a.d", "x-e"])
def test_paths(path):
    text = steps(f"${{{path}}}") + "x-a: {b: [0, {c: 7}], d: &seven 7}\nx-e: *seven\n"
    assert plan(text).steps == 7


@pytest.mark.parametrize(
    ("written", "delta"),
    [("1e-5", 1e-5), ("1E-5", 1e-5), ("0.000_01", 1e-5), ("1.0e-5", 1e-5), (".00001", 1e-5)],
)
def test_numbers_are_those_of_omegaconf(written, delta):
    text = flat({"privacy": "{adjacency: add-remove, delta: '${x-d}'}"}) + f"x-d: {written}\n"
    assert plan(text).delta == delta


def test_an_exact_value_stays_exact():
    text = flat({"sampling": "{scheme: poisson, rate: '${x-q}'}"}) + "x-q: 0.1234567890123456789\n"
    scheme = plan(text).phases[0].hierarchy.level(1).scheme
    assert scheme.probability == Fraction(1234567890123456789, 10**19)


def test_words_and_names_too():
    changes = {"sampling": "{scheme: '${x-s}', size: '${x-b}'}", "name": "'${x-n}'"}
    found = plan(flat(changes) + "x-s: fixed\nx-b: 3\nx-n: run one\n")
    assert (found.phases[0].hierarchy.level(1).scheme.size, found.name) == (3, "run one")


def test_a_value_of_the_config_itself():
    text = flat({"training": "{steps: '${x-n}'}", "data": "{examples: '${training.steps}'}"}) + "x-n: 5_000\n"
    found = plan(text)
    assert (found.steps, found.phases[0].hierarchy.level(1).count) == (5000, 5000)


def test_what_is_set_is_what_is_referred_to():
    text = steps("${x-n}") + "x-n: 5\n"
    assert plan(text, ["x-n=9"]).steps == 9
    assert plan(text, ["training.steps=${x-n}"]).steps == 5
    assert plan(text, ["x-m=8", "training.steps=${x-m}"]).steps == 8


def test_the_mark_is_that_of_the_reference():
    text, ((line, column),) = marked(flat({"training": "{§steps: '${x-n}'}"}) + "x-n: 5\n")
    assert load_text(text, path="f").mark("training.steps") == (line, column)
    text, places = marked(flat({"training": "{steps: §'${x-n}'}"}) + "x-n: five\n")
    (found,) = errors(text)
    assert (found.code, [(found.line, found.column)]) == ("DPC102", places)
    assert "got the string 'five'" in found.message


def test_the_hash_is_that_of_the_values():
    written, referred = flat({"training": "{steps: 7}"}), steps("${x-n}") + "x-n: 7\n"
    assert load_text(written, path="f").config_hash == load_text(referred, path="f").config_hash


CONTENT = {
    "conf__train_dot_yaml": "optim: {sigma: 1.3, steps: 77}\n",
    "conf__train_dot_json": '{"optim": {"sigma": 1.3, "steps": 77}}',
    "conf__train_dot_toml": "[optim]\nsigma = 1.3\nsteps = 77\n",
}


@pytest.mark.parametrize("name", CONTENT)
def test_other_files(repository, name):
    file = "../" + name.replace("__", "/").replace("_dot_", ".")
    changes = {
        "mechanism": f"{{noise_multiplier: '${{{file}:optim.sigma}}'}}",
        "training": f"{{steps: '${{{file}:optim.steps}}'}}",
    }
    found = load(str(repository(flat(changes), **{name: CONTENT[name]}))).plan
    assert (found.phases[0].mechanism.noise_multiplier, found.steps) == (1.3, 77)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a_dot_json", '{"n": 1e3}', 1000),
        ("a_dot_json", '{"n": 12345678901234}', 12345678901234),
        ("a_dot_json", '{\n\t"n": 8\n}', 8),
        ("a_dot_toml", "n = 1_000", 1000),
        ("a_dot_toml", "n = 1e3", 1000),
        ("a_dot_toml", "n = 0x10", 16),
        ("a_dot_yml", "n: 1e3", 1000),
        ("a_dot_yaml", "b: 1\nb: 2\n!!x c: !!y 3\nn: 9", 9),
    ],
)
def test_numbers_of_other_files(repository, name, content, expected):
    text = steps(f"${{../{name.replace('_dot_', '.')}:n}}")
    assert load(str(repository(text, **{name: content}))).plan.steps == expected


def test_a_chain_through_files_is_relative_to_each(repository):
    text = steps("${../conf/a.yaml:n}")
    path = repository(text, conf__a_dot_yaml="n: ${deep/b.yaml:m}\n", conf__deep__b_dot_yaml="m: ${k}\nk: 6\n")
    assert load(str(path)).plan.steps == 6


def test_a_repository_may_hold_links_and_be_one(repository, tmp_path):
    path = repository(steps("${../link.yaml:n}"), real__a_dot_yaml="n: 4\n")
    (path.parent.parent / "link.yaml").symlink_to("real/a.yaml")
    (tmp_path / "alias").symlink_to(path.parent.parent)
    assert load(str(path)).plan.steps == 4
    assert load(str(tmp_path / "alias" / "configs" / "run.yaml")).plan.steps == 4


def test_outside_git_the_own_folder_is_the_end(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.yaml").write_text("n: 3\n")
    (tmp_path / "b.yaml").write_text("n: 3\n")
    path = tmp_path / "inner" / "run.yaml"
    path.write_text(steps("${a.yaml:n}"))
    assert load(str(path)).plan.steps == 3
    path.write_text(steps("${../b.yaml:n}"))
    found = refusal(path)
    assert (found.code, "lies outside" in found.message) == ("DPC110", True)


WRONG = [
    ("${x-none}", "DPC110", "there is no `x-none` in the file"),
    ("${x-run.stepz}", "DPC110", "there is no `stepz` in `x-run`"),
    ("${x-run.list[9]}", "DPC110", "there is no [9] in `x-run.list`"),
    ("${x-run.steps.more}", "DPC110", "there is no `more` in `x-run.steps`"),
    ("${x-run}", "DPC110", "it leads to a mapping, not to one value"),
    ("${x-run.list}", "DPC110", "it leads to a list"),
    ("${x-run.nothing}", "DPC110", "it leads to nothing"),
    ("${x-run.later}", "DPC110", "it leads to `???`"),
    ("${x-run.tagged}", "DPC110", "`x-run.tagged` has a tag"),
    ("${training.steps}", "DPC111", "it leads back to itself"),
    ("${x-run.circle}", "DPC111", "it leads back to itself"),
    ("${}", "DPC110", "`` is no path of keys"),
    ("${x-run..steps}", "DPC110", "is no path of keys"),
    ("${x-run.steps", "DPC110", "a reference is the whole value"),
    ("1${x-run.steps}", "DPC110", "a reference is the whole value"),
    ("${x-run.steps}0", "DPC110", "a reference is the whole value"),
    ("${x-run.${x-run.steps}}", "DPC110", "a reference is the whole value"),
    ("${a}${b}", "DPC110", "a reference is the whole value"),
    ("${.steps}", "DPC110", "relative references are not followed"),
    ("${..x-run.steps}", "DPC110", "relative references are not followed"),
    ("${oc.env:HOME}", "DPC110", "resolvers are not run"),
    ("${oc.env:HOME,7}", "DPC110", "resolvers are not run"),
    ("${a.yaml.exe:b}", "DPC110", "resolvers are not run"),
    ("${" + "a" * 500 + "}", "DPC110", "more than 400 characters"),
]
RUN = """\
x-run: {steps: 4, list: [1], nothing: ~, later: '???', tagged: !t 5, circle: '${x-other}'}
x-other: ${x-run.circle}
"""


@pytest.mark.parametrize(("reference", "code", "words"), WRONG)
def test_dead_ends(reference, code, words):
    clean, places = marked(flat({"training": f"{{steps: §'{reference}'}}"}) + RUN)
    found = [error for error in errors(clean) if "tags are not" not in error.message]
    assert [(error.code, error.line, error.column) for error in found] == [(code, *place) for place in places]
    assert words in found[0].message


def test_a_key_given_twice_is_no_target():
    text = "train: {steps: 4, steps: 40}\ndpcalc:\n" + _indented(steps("${train.steps}"))
    (found,) = errors(text)
    assert (found.code, "`steps` stands there more than once" in found.message) == ("DPC110", True)


def test_a_key_given_twice_behind_a_merge_is_no_target():
    text = "base: &b {steps: 4, steps: 40}\ntrain: {<<: *b}\ndpcalc:\n" + _indented(steps("${train.steps}"))
    (found,) = errors(text)
    assert "more than once" in found.message


def _indented(text):
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_hydra_is_named_where_hydra_composes():
    (found,) = errors("defaults: [optim: sgd]\ndpcalc:\n" + _indented(steps("${optim.steps}")))
    assert (found.code, "Hydra" in found.hint) == ("DPC110", True)


def test_a_misspelt_key_is_suggested():
    (found,) = errors(steps("${x-run.stepz}") + RUN.replace("tagged: !t 5, ", ""))
    assert found.hint == "did you mean `steps`?"


def test_chains_end():
    def chain(length):
        links = "".join(f"x-c{index}: ${{x-c{index + 1}}}\n" for index in range(length - 1))
        return steps("${x-c0}") + links + f"x-c{length - 1}: 3\n"

    assert plan(chain(MAX_CHAIN)).steps == 3
    (found,) = errors(chain(MAX_CHAIN + 1))
    assert (found.code, f"more than {MAX_CHAIN} references" in found.message) == ("DPC111", True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/etc/hosts.yaml", "is an absolute path"),
        ("C:/a.yaml", "is an absolute path"),
        ("~/a.yaml", "is an absolute path"),
        ("..\\\\a.yaml", "is no plain file name"),
        ("a\\u202e.yaml", "is no plain file name"),
        ("../../../a.yaml", "lies outside the repository"),
        ("../../outside.yaml", "lies outside the repository"),
        ("x/../../../outside.yaml", "lies outside the repository"),
        ("../link.yaml", "is a symbolic link that leaves the repository"),
        ("../linked/outside.yaml", "is a symbolic link that leaves the repository"),
        ("../innocent.yaml", "is no YAML, JSON or TOML file of the repository"),
        ("../.git/inner.yaml", "is no YAML, JSON or TOML file of the repository"),
        ("../none.yaml", "no such file"),
        ("../folder.yaml", "is not a regular file"),
        ("../binary.yaml", "is not UTF-8"),
        ("../broken.yaml", "cannot be read, line 1"),
        ("../broken.json", "cannot be read as JSON"),
        ("../broken.toml", "cannot be read as TOML"),
        ("../digits.toml", "cannot be read as TOML"),
        ("../empty.yaml", "the file is empty"),
        ("../twice.json", "`n` stands there more than once"),
        ("../tagged.yaml", "`n` has a tag"),
    ],
)
def test_files_that_are_not_read(repository, tmp_path, name, words):
    (tmp_path / "outside.yaml").write_text("n: 4\n")
    text, places = marked(flat({"training": f'{{steps: §"${{{name}:n}}"}}'}))
    path = repository(
        text,
        _dot_git__inner_dot_yaml="n: 4\n",
        _dot_git__config="n: 4\n",
        folder_dot_yaml__a="",
        broken_dot_yaml="{",
        broken_dot_json="{",
        broken_dot_toml="n = ",
        digits_dot_toml="n = " + "9" * 5000,
        empty_dot_yaml="",
        twice_dot_json='{"n": 4, "n": 5}',
        tagged_dot_yaml="n: !!int 4",
    )
    root = path.parent.parent
    (root / "binary.yaml").write_bytes(b"n: \xff")
    (root / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (root / "linked").symlink_to(tmp_path)
    (root / "innocent.yaml").symlink_to(root / ".git" / "config")
    found = refusal(path)
    assert (found.code, [(found.line, found.column)]) == ("DPC110", places)
    assert words in found.message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a_dot_yaml", "#" * (MAX_BYTES + 1)),
        ("a_dot_json", " " * (MAX_BYTES + 1)),
        ("a_dot_json", "[" * 100_000),
        ("a_dot_json", '{"n":' * 100 + "1" + "}" * 100),
        ("a_dot_json", "[" + "1," * 30_000 + "1]"),
        ("a_dot_toml", "n = " + "[" * 100_000),
        ("a_dot_toml", ".".join("a" * 200) + " = 1"),
        ("a_dot_toml", "a." * 100_000 + "a = 1"),
        ("a_dot_toml", '"=".' * 60_000 + "a = 1"),
        ("a_dot_yaml", "[" * 100_000),
        ("a_dot_yaml", "a: &a [*a]"),
    ],
)
def test_files_that_ask_for_much_work(repository, name, content):
    path = repository(steps(f"${{../{name.replace('_dot_', '.')}:n}}"), **{name: content})
    start = time.perf_counter()
    assert refusal(path).code == "DPC111"
    assert time.perf_counter() - start < 5


def test_many_files_end(repository):
    names = [f"f{index}_dot_yaml" for index in range(MAX_FILES + 1)]
    files = {name: f"n: ${{f{index + 1}.yaml:n}}\n" for index, name in enumerate(names)}
    draws = [f"{{name: l{index}, count: '${{../f{index}.yaml:m}}'}}" for index in range(15)]
    text = flat({"data": f"{{levels: [{', '.join(draws)}]}}", "sampling": "{l0: {scheme: all}}"})
    path = repository(
        text.replace("delta: 1e-6", "unit: l0, delta: '${../f15.yaml:m}', group_size: '${../f16.yaml:m}'"),
        **{name: f"m: 0.5\n{content}" for name, content in files.items()},
    )
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert [error.message for error in caught.value.diagnostics if "more than 16 files" in error.message]


def test_many_dead_references_are_told_quickly():
    names = ", ".join(f"k{index}: '${{k{index}x}}'" for index in range(4000))
    start = time.perf_counter()
    assert len(errors(flat({"training": f"{{{names}}}"}))) > 4000
    assert time.perf_counter() - start < 20


def test_a_config_that_is_a_link_out_of_its_repository_is_not_read(repository, tmp_path):
    path = repository(flat({}))
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: 123\n")
    for link, target in ((path.parent / "link.yaml", secret), (path.parent / "folder", tmp_path)):
        link.symlink_to(target)
        found = refusal(link if link.name == "link.yaml" else link / "secret.yaml")
        assert (found.code, found.line, found.source_line) == ("DPC110", None, "")
        assert "123" not in found.format()


def test_standard_input_refers_from_the_current_directory(repository, monkeypatch):
    path = repository(steps("${a.yaml:n}"), configs__a_dot_yaml="n: 5\n")
    monkeypatch.chdir(path.parent)
    read, write = os.pipe()
    os.write(write, path.read_bytes())
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert load("-").plan.steps == 5
