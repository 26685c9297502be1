"""`${file:key}`: files of the same repository, and every way to lead out of it or to keep a gate busy."""

import os
import re
import time

import pytest

from dpcalc.config.documents import MAX_FILES, read_document
from dpcalc.config.load import load
from dpcalc.config.source import MAX_BYTES, ConfigError, source_of
from dpcalc.config.tree import walk
from tests.config.texts import corpus, flat, marked

ROWS = corpus("referenced_files")


def steps(reference):
    return flat({"training": f"{{steps: '{reference}'}}"})


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


@pytest.mark.parametrize(("name", "content", "expected"), ROWS["numbers"])
def test_numbers_of_other_files(repository, name, content, expected):
    text = steps(f"${{../{name.replace('_dot_', '.')}:n}}")
    assert load(str(repository(text, **{name: content}))).plan.steps == expected


def test_a_whole_number_without_end_is_not_computed(repository):
    found = refusal(repository(steps("${../a.json:n}"), a_dot_json='{"n": ' + "9" * 5000 + "}"))
    assert (found.code, "at most 80 characters" in found.message) == ("DPC106", True)


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


@pytest.mark.parametrize(("name", "words"), ROWS["refused"])
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
    start = time.process_time()
    assert refusal(path).code == "DPC111"
    assert time.process_time() - start < 5


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


def test_a_file_of_several_documents_is_told(tmp_path):
    (tmp_path / "job.yaml").write_text("kind: ConfigMap\n---\nsigma: 1.1\n", encoding="utf-8")
    path = tmp_path / "run.yaml"
    path.write_text(flat({"mechanism": '{noise_multiplier: "${job.yaml:sigma}"}'}), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    (error,) = caught.value.diagnostics
    assert "`job.yaml` cannot be read, line 2: a second document begins" in error.message
    assert "keep the part that is meant" in error.hint


PLACED = {
    "run.toml": """\
top = 1
text = '''
fake.sigma = 9
'''
[tool.flwr."app.x"] # a comment
# sigma = 3
§sigma = 1.1
a.b = §2
 "k=y" = §3
inline = §{ deep = 4 }
more = §[
  5, 6,
]
[[§row]]
v = §7
[[row]]
v = §8
[row.sub]
v = §9
""",
    "run.json": '{\n\t"a": {"b": §1.5,\n  "list": [1, {"c": §2}]},\n "e": §true}\n',
}


@pytest.mark.parametrize(("name", "path", "place"), ROWS["places"])
def test_values_of_toml_and_json_have_places(name, path, place):
    text = PLACED[name].replace("§", "")
    tree = read_document(source_of(text, name), f".{name.rpartition('.')[2]}").tree
    node = dict(walk(tree, ""))[path]
    assert [node.mark.line, node.mark.column] == place


@pytest.mark.parametrize(("files", "said"), ROWS["included"])
def test_what_a_gin_file_includes(tmp_path, files, said):
    (tmp_path / ".git").mkdir()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    config = tmp_path / "dpcalc.yaml"
    config.write_text(flat({"mechanism": "{noise_multiplier: '${t/a.gin:Opt.sigma}'}"}), encoding="utf-8")
    if isinstance(said, str):
        with pytest.raises(ConfigError, match=re.escape(said)):
            load(str(config))
    else:
        assert load(str(config)).plan.phases[0].mechanism.noise_multiplier == said
