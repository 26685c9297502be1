"""Statements: every number on its safe side, and nothing that a file says has power over a reader's screen."""

import importlib
import json
import math
import re
from dataclasses import replace
from decimal import Context, Decimal
from html import unescape

import jsonschema
import pytest
import yaml

from dpcalc.report.statement import STATEMENTS
from tests.report.test_formats import SCHEMAS
from tests.report.test_golden import HOSTILE, ran  # noqa: F401  a fixture

MADE = "dpcalc.planner.statement.statement"


@pytest.fixture
def stated(ran, monkeypatch):  # noqa: F811
    """The text of a statement; `changes` are made to its guarantee, `more` to the statement."""
    shared = importlib.import_module("dpcalc.planner.statement").statement

    def of(config="run.yaml", form="text", *options, code=0, more=lambda _: {}, **changes):
        def made(plan):
            found = shared(replace(plan, name="", budget=None))  # what neither changes is made once
            guarantee = replace(found.evaluation.guarantee, **changes)
            return replace(found, evaluation=replace(found.evaluation, guarantee=guarantee), **more(found))

        monkeypatch.setattr(MADE, made)
        ended = ran("statement", config, "--format", form, *options)
        assert ended.code == code, ended.err
        return ended.out if code == 0 else ended.err

    return of


def words(text):
    return " ".join(text.split())


def test_the_factor_is_that_of_the_printed_epsilon(stated):
    """A reviewer's calculator is asked: e^4.27 is 71.53, to three digits 71.6, however epsilon goes on."""
    for epsilon in (0.0, 1e-3, 0.946867, 4.26123, 7.7251, 19.84, *(0.05 * 1.37**n for n in range(18))):
        for budget in (2.0, 4.2613):
            text = words(stated("run.yaml", "text", "--set", f"budget.epsilon={budget}", epsilon=epsilon))
            exponent, factor = re.search(r"a factor of e\^(\S+) \((\S+)\),", text).groups()
            assert f"epsilon at most {exponent} " in text
            exact = Decimal(exponent).exp(Context(prec=40))
            excess = Decimal(factor.replace(",", "")) - exact
            assert 0 <= excess < Decimal(10) ** (exact.adjusted() - 2)


def test_words_follow_the_run(stated):
    for adjacency, said in {
        "add-remove": "Whether one example is in the data or not changes",
        "replace-one": "Whether the data hold one example or another in its place changes",
        "zero-out": "Whether one example contributes to the training or counts as zero changes",
    }.items():
        assert said in words(stated(adjacency=adjacency))
    assert "budget 2.0, 100.01% used: exceeded" in words(stated(epsilon=2.0002))
    poor = {"more": lambda found: {"gdp": replace(found.gdp, regret=0.03701075)}}
    assert "mu-GDP no good summary of this run: regret 0.0371" in words(stated(**poor))
    assert "mu-GDP" not in stated(more=lambda _: {"gdp": None})


def test_without_sampling_nothing_is_said_of_amplification(stated):
    for factor, said in ((1, 0), (1.01, 2)):
        text = stated(more=lambda found, factor=factor: {"unsampled": found.evaluation.guarantee.epsilon * factor})
        assert text.count("amplification") + text.count("leaves the unit out") == said
        assert "has the weaker guarantee" in words(text)


@pytest.mark.parametrize("host", ["www.evil.example", "WWW.Evil.Example", "x/www.evil.example/b.yaml"])
def test_markdown_makes_no_link_of_a_name(stated, host):
    """GitHub makes a link of `www.` and a name, wherever it stands."""
    text = stated("run.yaml", "markdown", "--set", f"name={host}")
    assert "www<!-- -->." in text.lower()
    assert not re.search(r"(?i)www\.", text)


def test_markdown_and_a_page_show_every_word_as_it_is_and_load_nothing(stated):
    text = stated(HOSTILE, "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    page = stated(HOSTILE, "html")
    tags = set(re.findall(r"<(\w+)", page))
    assert tags == {"html", "meta", "title", "style", "h1", "h2", "p", "table", "tr", "th", "td", "ul", "li", "img"}
    assert [each[:26] for each in re.findall(r'(?:src|href)="([^"]*)', page)] == ["data:image/svg+xml;base64,"]
    shown = unescape(re.sub(r"<[^>]*>", " ", page.partition("<h1>")[2]))
    assert "<b> [/bold] ![i](http://e.vil) `c` | @team {0} $x$ \\" in shown
    points = [line[2:] for line in text.splitlines() if line.startswith("- ")]
    assert len(points) > 10
    assert all(point in words(shown) for point in points if "\\" not in point)


# What every form says, the registry of deployments, LaTeX


@pytest.mark.parametrize("form", STATEMENTS)
@pytest.mark.parametrize("config", ["run.yaml", "section.yaml"])
def test_every_form_says_how_the_run_is_released_and_what_is_not_covered(stated, form, config):
    tuned = config == "section.yaml"
    said = words(re.sub(r"[\\{}]|&#92;", "", stated(config, form)))
    assert "whoever runs the training sees the data, and is trusted to run it as stated" in said
    assert "once: all the steps stated here; a later run on the same data" in said
    assert "everybody may see all that the steps release, each checkpoint" in said
    assert "how the data are collected, stored and secured" in said
    assert ("settings are chosen without these data" in said) is not tuned
    assert ("the best of several runs is released (poisson, 5 on average)" in said) is tuned
    assert ("tuning, and other runs on the same data" in said) is not tuned


REGISTRY = json.loads((SCHEMAS / "deployments_registry.json").read_text(encoding="utf-8"))
DATED = ("--published", "2026-01-31")


def problems(text):
    """What the registry's own check finds in an entry: its schema, folded texts, two backslashes in a row."""
    entry = yaml.safe_load(text)
    validator = jsonschema.Draft7Validator(REGISTRY, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    folded = [token.style for token in yaml.scan(text) if getattr(token, "style", None) == ">"]
    doubled = [each for each in values(entry) if re.search(r"\\\\[^()]", str(each))]
    return [error.message for error in validator.iter_errors(entry)] + folded + doubled


def values(entry):
    if not isinstance(entry, dict | list):
        return [entry]
    return [each for inner in (entry.values() if isinstance(entry, dict) else entry) for each in values(inner)]


def leaves(entry, inner, path=()):
    """The dotted paths of an entry or a schema; `inner` gives the mapping below one, or None."""
    below = inner(entry)
    if below is None:
        return {".".join(path)}
    return {leaf for name, each in below.items() for leaf in leaves(each, inner, (*path, name))}


def test_an_entry_states_what_is_known_and_asks_for_the_others(stated):
    entry = yaml.safe_load(stated("run.yaml", "registry", epsilon=0.946867))
    assert (entry["url_slug"], entry["status"], entry["tier"]) == ("clinic", "Draft", 3)
    deployment = entry["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.946867, "delta": 1e-5}
    assert deployment["privacy_loss"]["privacy_unit"] == "one example"
    assert deployment["basic"]["description"] == "..."
    assert deployment["basic"]["data_curators"] == ["..."]
    assert "publication_date" not in deployment["basic"]
    others = {"deployment.privacy_loss.privacy_parameters.rho", "deployment.basic.data_product_sector"}
    dated = yaml.safe_load(stated("run.yaml", "registry", *DATED))
    stated_ones = leaves(dated, lambda each: each if isinstance(each, dict) else None)
    assert stated_ones == leaves(REGISTRY, lambda schema: schema.get("properties")) - others
    assert "expected a run with a finite epsilon" in stated("silent.yaml", "registry", code=2)


@pytest.mark.parametrize("config", ["run.yaml", "section.yaml", HOSTILE])
@pytest.mark.parametrize("name", [(), ("--set", r"name='a\\b: [\\(x) ...'")])
def test_an_entry_is_valid_once_it_has_a_date(stated, config, name):
    assert problems(stated(config, "registry", *DATED, *name)) == []
    assert problems(stated(config, "registry", *name)) == ["'publication_date' is a required property"]


TEX = "\\ { } $ & # ^ _ % ~ < > | \" ' ` -- --- ,, ?` !` ^^5c \\input{/etc/passwd} [x] @"
COMMANDS_OF_ESCAPES = re.compile(
    r"\\(?:text(?:backslash|asciicircum|asciitilde|less|greater|bar|quotedbl|quotesingle|asciigrave)\{\}|[{}$&#_%])"
)


@pytest.mark.parametrize("name", [(), ("--set", f"name={json.dumps(TEX)}")])
def test_latex_is_balanced_whatever_names_hold(stated, name):
    text = stated(HOSTILE, "latex", *name)
    head, body = text.split("\\begin{document}\n")
    assert "\\documentclass" in head
    opened = []
    for kind, environment in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(environment)
        else:
            assert opened.pop() == environment
    assert not opened
    assert not re.search(r"--|,,|\?`|!`|''|``|<<|>>", COMMANDS_OF_ESCAPES.sub("x", body))
    body = COMMANDS_OF_ESCAPES.sub("", body)
    assert body.count("{") == body.count("}")
    known = {"section", "subsection", "begin", "end", "item"}
    assert set(re.findall(r"\\([A-Za-z]+|.)", body)) <= known
    assert not re.search(r"[$&#^_%~]", body)


def test_a_statement_of_the_best_of_several_runs_follows_from_epsilon_and_delta(stated):
    made = json.loads(stated("section.yaml", "json"))
    epsilon, delta = made["guarantee"]["epsilon"], made["guarantee"]["delta"]
    # the worst (epsilon, delta)-private mechanism: randomized response, but all is given away with probability delta
    truth = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    lie = (1 - delta) / (1 + math.exp(epsilon))
    assert made["attack"]["advantage"] == pytest.approx(delta + truth - lie, rel=1e-12)
    for each in made["attack"]["detection"]:
        rate = each["false_positive_rate"]
        exact = delta + truth * rate / lie if rate < lie else delta + truth + lie * (rate - lie) / truth
        assert each["true_positive_rate"] == pytest.approx(min(1.0, exact), rel=1e-9)
    assert (made["groups"], made["gdp"]) == ([], None)
    assert "together" not in stated("section.yaml")
