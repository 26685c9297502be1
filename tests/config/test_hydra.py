"""References into the files of Hydra: only the value that a run composes passes (corpus/hydra.yaml)."""

import warnings

import pytest
import yaml

from dpcalc.config.load import load
from dpcalc.config.source import ConfigError
from tests.config.texts import corpus, flat

STRICT, LOOSE = "sigma: 4.0\n", "sigma: 0.4\n"
HYDRA = corpus("hydra")


def found(folder, files, reference="${conf/dp/strict.yaml:sigma}"):
    """The noise that a config takes from `conf/`, or the one error."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in {"dp/strict.yaml": STRICT, "dp/loose.yaml": LOOSE, **files}.items():
        path = folder / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config = folder / "dpcalc.yaml"
    config.write_text(flat({"mechanism": f"{{noise_multiplier: '{reference}'}}"}), encoding="utf-8")
    try:
        return load(str(config)).plan.phases[0].mechanism.noise_multiplier
    except ConfigError as caught:
        (only,) = caught.diagnostics
        assert only.code in {"DPC110", "DPC111"}
        assert only.line
        return f"{only.message} {only.hint}"


def files_of(files):
    named = {"config.yaml": files} if isinstance(files, str) else files
    return {name: f"{text}\n" for name, text in named.items()}


@pytest.mark.parametrize("name", HYDRA["passes"])
def test_the_file_that_a_run_reads(tmp_path, name):
    assert found(tmp_path, files_of(HYDRA["passes"][name])) == 4


LARGE = "#" * 200_000 + "\n"
PAD = ("#" + "x" * 99 + "\n") * 3000
PARSED = "its Hydra folders have more than 512 KiB of YAML to be parsed"
REFUSED = {
    **{name: (files_of(files), words) for name, (files, words) in HYDRA["refused"].items()},
    "too large to see": ({"config.yaml": "#" * 300_000 + "\ndefaults: [dp: loose]\n"}, "too large"),
    "too much to parse": ({f"{name}.yaml": f"{LARGE}defaults: [dp: strict]\n" for name in "abc"}, PARSED),
    "too many options to parse": (
        {
            "config.yaml": "defaults: [dp: strict, a: one, b: one, c: one]\n",
            **{f"{group}/one.yaml": f"{LARGE}x: 1\n" for group in "abc"},
        },
        PARSED,
    ),
    # Hydra reads each of these, and takes another file than the one that is referred to.
    "behind a decoy farther out": (
        {"config.yaml": "defaults: [dp: loose]\n", "../ci.yaml": "defaults:\n  - conf/dp: strict\n"},
        "",
    ),
    "large and indented": ({"config.yaml": f" defaults:\n   - dp: loose\n{PAD}"}, ""),
    "large, with an escape": ({"config.yaml": f'"d\\u0065faults": [{{dp: loose}}]\n{PAD}'}, ""),
    "large, an explicit key": ({"config.yaml": f"? defaults\n: [{{dp: loose}}]\n{PAD}"}, ""),
    "large, after a document mark": ({"config.yaml": f"--- {{defaults: [{{dp: loose}}]}}\n{PAD}"}, ""),
    "after a line separator": ({"config.yaml": "# \u2028\ndefaults: [dp: loose]\n"}, ""),
    "after a next line": ({"config.yaml": "# \x85\ndefaults: [dp: loose]\n"}, ""),
    "an ending that Hydra adds to": (
        {"config.yaml": "defaults: [dp: strict.yml]\n", "dp/strict.yml": STRICT},
        "",
    ),
}


@pytest.mark.parametrize(("files", "words"), REFUSED.values(), ids=REFUSED)
def test_what_a_run_does_not_read(tmp_path, files, words):
    message = found(tmp_path, files)
    assert isinstance(message, str)
    assert words in message
    assert "--cfg job --resolve" in message or not words


@pytest.mark.parametrize(
    ("defaults", "reference", "value"),
    [
        ("base, _self_", "sigma", 4),
        ("_self_, base", "sigma", 0.4),
        ("_self_, base", "there", 0.4),
    ],
)
def test_a_main_config(tmp_path, defaults, reference, value):
    """Its own values, and what its options say of the same key."""
    files = {"config.yaml": f"defaults: [{defaults}]\nsigma: 4.0\nthere: ${{sigma}}\n", "base.yaml": LOOSE}
    assert found(tmp_path, files, f"${{conf/config.yaml:{reference}}}") == value


@pytest.mark.parametrize(("defaults", "value"), [("_self_, dp: loose", 0.4), ("dp: loose, _self_", 4)])
def test_a_section_of_a_main_config(tmp_path, defaults, value):
    """`dpcalc:` in the main config itself, which refers to what an option replaces."""
    (tmp_path / "dp").mkdir()
    (tmp_path / "dp" / "loose.yaml").write_text(LOOSE, encoding="utf-8")
    section = flat({"mechanism": "{noise_multiplier: '${dp.sigma}'}"}).replace("\n", "\n  ").rstrip()
    path = tmp_path / "config.yaml"
    path.write_text(f"defaults: [{defaults}]\ndp: {{sigma: 4.0}}\ndpcalc:\n  {section}\n", encoding="utf-8")
    assert load(str(path)).plan.phases[0].mechanism.noise_multiplier == value


def test_links(tmp_path):
    """Hydra knows a group by the name of the link. A main config outside the repository is not read."""
    (tmp_path / "outside.yaml").write_text("defaults: [dp: loose]\n", encoding="utf-8")
    (tmp_path / "work" / "shared").mkdir(parents=True)
    (tmp_path / "work" / "conf").mkdir()
    (tmp_path / "work" / "conf" / "dq").symlink_to("../shared")
    for name, text in (("strict", STRICT), ("loose", LOOSE)):
        (tmp_path / "work" / "shared" / f"{name}.yaml").write_text(text, encoding="utf-8")
    message = found(tmp_path / "work", {"config.yaml": "defaults: [dq: loose]\n"}, "${conf/dq/strict.yaml:sigma}")
    assert "choose `conf/dq/loose.yaml`" in message
    (tmp_path / "work" / "conf" / "config.yaml").unlink()
    (tmp_path / "work" / "conf" / "config.yaml").symlink_to("../../outside.yaml")
    message = found(tmp_path / "work", {})
    assert "`config.yaml` beside it is a symbolic link that leaves the repository" in message


def test_many_large_files_that_hold_no_list_are_searched_up_to_a_limit(tmp_path, monkeypatch):
    files = {"config.yaml": "defaults: [dp: strict]\n", **{f"data{at}.yaml": "x" * 1000 for at in range(3)}}
    assert found(tmp_path, files) == 4
    monkeypatch.setattr("dpcalc.config.documents.MAX_READ", 2048)
    assert "its Hydra folders have more than 2 KiB of YAML to be searched" in found(tmp_path, files)


CASES = {**HYDRA["passes"], **{f"{name} (refused)": case[0] for name, case in HYDRA["refused"].items()}}
CASES |= HYDRA["composed"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", CASES)
def test_hydra_composes_the_same(tmp_path, name):
    """Each value of each main config is what Hydra composes, or refused; none of `composed` is refused."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    files = files_of(CASES[name])
    found(tmp_path, files)  # which writes them
    compared = 0
    for main, text in files.items():
        if "/" in main or not main.endswith(".yaml") or "defaults" not in text:
            continue
        try:
            with warnings.catch_warnings(), initialize_config_dir(str(tmp_path / "conf"), version_base="1.3"):
                warnings.simplefilter("ignore")
                tree = compose(main.removesuffix(".yaml"))
        except (HydraException, OmegaConfBaseException, ValueError, RecursionError, yaml.YAMLError):
            tree = OmegaConf.create({})  # then nothing may be read
        leaves = dict.fromkeys(("sigma", "dp.sigma", "n"))
        waiting = [("", tree)]
        while waiting:
            path, node = waiting.pop()
            for key in node:
                where = f"{path}.{key}".removeprefix(".")
                try:
                    value = None if OmegaConf.is_missing(node, key) else node[key]
                except OmegaConfBaseException:
                    continue
                if isinstance(value, DictConfig):
                    waiting.append((where, value))
                elif isinstance(value, int | float) and value:
                    leaves[where] = value
        for path, value in leaves.items():
            read = found(tmp_path, files, f"${{conf/{main}:{path}}}")
            is_read = not isinstance(read, str)
            assert read == value if is_read else name not in HYDRA["composed"] or value is None, path
            compared += is_read
    assert name not in HYDRA["composed"] or compared
