"""What configs mean and what is wrong with them: the cases of `corpus/`, whose form `corpus/README.md` tells."""

import time
from dataclasses import replace
from functools import partial

import pytest

from dpcalc.config.expand import FLAGS, Overrides, missing_flags, normal_form
from dpcalc.config.load import load, load_from_flags, load_text
from dpcalc.config.source import ConfigError, visible
from tests.config.texts import BASES, CORPUS, PATH, base_of, cases, flat, marked, text_of, varied

# Files whose cases other tests read, or that are read here in another way.
ELSEWHERE = {
    "all_errors",
    "bases",
    "differences",
    "differing",
    "different",
    "edits",
    "effects",
    "foreign",
    "only_dpcalc",
    "words",
}
ELSEWHERE |= {"fuzz", "places", "training_code", "unsectioned", "valid", "terminals", "hydra", "calibrated", "projects"}
RUN = {"--sample-rate": "0.004", "--noise-multiplier": "1.1", "--steps": "14_000", "--delta": "1e-5"}


def name_of(case):
    """A name that tells a case from the others."""
    said = [*case.get("set", ()), *(f"{option} {text}" for option, text in case.get("flags", {}).items())]
    text = case.get("strategy") or case.get("draw") or text_of(case)
    return case.get("name") or " ".join([text, *said] if text != flat({}) else said)


MALFORMED = [(name_of(case), text_of(case), case) for case in cases("malformed")]


def prepared(case, folder):
    """A function that loads a case, and the places that it marks: in its file, others, `set`, `unset` and `flags`."""
    text, found = marked(text_of(case))
    path, places = PATH, []
    if {"files", "links", "at"} & case.keys():
        root = folder / "repository"
        (root / ".git").mkdir(parents=True)
        for name, target in case.get("links", {}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)
        path = str(root / case.get("at", "run.yaml"))
        places = [(path, *mark) for mark in found]
        for name, content in {case.get("at", "run.yaml"): text or None, **case.get("files", {})}.items():
            if content is None:
                continue
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                content, found = marked(content)  # noqa: PLW2901
                places += [(str(root / name), *mark) for mark in found]
            (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        places = [(PATH, *mark) for mark in found]
    alone, texts = case.get("alone"), {}
    flags = {**RUN, **alone} if alone is not None else case.get("flags", {})
    for kind, said in (("set", case.get("set", ())), ("unset", case.get("unset", ())), ("", flags)):
        options = said if kind == "" else {f"--{kind} #{at}": each for at, each in enumerate(said, start=1)}
        for option, written in options.items():
            if written is not None:
                texts[kind, option], found = marked(written)
                places += [(option, *mark) for mark in found]
    given = Overrides(
        assignments=tuple(value for (kind, _), value in texts.items() if kind == "set"),
        unset=tuple(value for (kind, _), value in texts.items() if kind == "unset"),
        flags=tuple((option, value) for (kind, option), value in texts.items() if kind == ""),
        assumed=tuple(case.get("assumed", ())),
    )
    if alone is not None:
        assert list(missing_flags(given)) == case.get("lacks", [])
        return partial(load_from_flags, given), places
    key, found = marked(case.get("key", ""))
    places += [("--key", *mark) for mark in found]
    options = {"key": key, "overrides": given}
    if path == PATH:
        return partial(load_text, text, path=PATH, **options), places
    return partial(load, path, **options), places


def nameless(found):
    """The plan, an only phase without its name, which says whether it stands under `phases`."""
    return replace(found, phases=(replace(found.phases[0], name=""),)) if len(found.phases) == 1 else found


def padded(remark):
    """Code, severity, line, column and words of a remark."""
    return remark if len(remark) == 5 else [*remark, ""]


def is_told(diagnostic, code, *phrases):
    said = f"{diagnostic.message} | {diagnostic.hint}"
    return code in {diagnostic.code, None} and all(phrase in said for phrase in phrases if phrase)


def check(case, folder):
    read, places = prepared(case, folder)
    start = time.process_time()
    expected = case.get("errors", [case["error"]] if "error" in case else [])
    if expected:
        with pytest.raises(ConfigError) as caught:
            read()
        found = caught.value.diagnostics
        if places:
            assert [(each.path, each.line, each.column) for each in found[: len(expected)]] == places
        if case.get("more") == "any":  # the errors stand among others
            found = [next(each for each in found if is_told(each, *words)) for words in expected]
        assert len(found) == len(expected) or ("more" in case and len(found) > len(expected))
        for each, words in zip(found, expected, strict=False):
            assert is_told(each, *words), (each.code, each.message, each.hint)
        for phrase in case.get("unsaid", ()):
            assert not [each.hint for each in found if phrase in each.hint]
    elif "lacks" not in case:
        found = read()
        assert found.section == case.get("key", "dpcalc" if "inside" in case else "")
        if "same" in case:
            same = load_text(varied(BASES[base_of(case)], case["same"]), path=PATH)
            assert nameless(found.plan) == nameless(same.plan)
            assert found.config_hash == same.config_hash
        if "remarks" in case:
            assert len(found.diagnostics) == len(case["remarks"])
            for one, (*place, phrase) in zip(found.diagnostics, map(padded, case["remarks"]), strict=True):
                assert [one.code, str(one.severity), one.line, one.column] == place
                assert phrase in f"{one.message} | {one.hint}"
        for phrase in case.get("shows", ()):
            assert phrase in normal_form(found.plan)
        assert {"same", "remarks", "shows"} & case.keys()
    assert time.process_time() - start < 5  # seconds; a tenth of a second is usual, without limits it is minutes


def all_cases():
    for path in sorted(CORPUS.glob("*.yaml")):
        if path.stem not in ELSEWHERE:
            for case in cases(path.stem):
                marks = [pytest.mark.heavy] if "heavy" in case else []
                yield pytest.param(case, marks=marks, id=f"{path.stem} {visible(name_of(case))[:100]}")


@pytest.mark.parametrize("case", list(all_cases()))
def test_case(case, tmp_path):
    check(case, tmp_path)


def test_names_of_cases_differ():
    assert len({name for name, *_ in MALFORMED}) == len(MALFORMED)


def test_every_option_of_a_run_is_tried():
    assert {flag for case in cases("plans") for flag in case.get("flags", ())} == FLAGS.keys()
