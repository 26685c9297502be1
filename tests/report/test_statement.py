"""Statements: every number on its safe side, and nothing that a file says has power over a reader's screen."""

import json
import math
import re
from dataclasses import replace
from decimal import Context, Decimal
from html import unescape

import jsonschema
import pytest
import yaml

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.plan import Budget
from dpcalc.planner.risk import AttackBounds
from dpcalc.planner.statement import statement as made_statement
from dpcalc.planner.tuning import Poisson
from dpcalc.report.formats import STATEMENTS, statement_format
from dpcalc.report.statement import statement_view
from tests.report.risks import NO_SUMMARY
from tests.report.samples import EVALUATION, GUARANTEE, PLAN
from tests.report.statements import HOSTILE_LOADED, HOSTILE_STATEMENT, NOTHING, STATEMENT, loaded
from tests.report.test_formats import SCHEMAS


def stated(form, statement=STATEMENT, config=None, **options):
    return statement_format(form)(statement_view(statement, config or loaded(), **options), 80)


def text_of(statement=STATEMENT, config=None):
    return " ".join(stated("text", statement, config).split())


@pytest.mark.parametrize("budget", [None, Budget(epsilon=4.2613)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.946867, 4.26123, 7.7251, 19.84, *(0.05 * 1.37**n for n in range(18))])
def test_the_factor_is_that_of_the_printed_epsilon(epsilon, budget):
    """A reviewer's calculator is asked: e^4.27 is 71.53, to three digits 71.6, however epsilon goes on."""
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, epsilon=epsilon, epsilon_lower=None))
    text = text_of(replace(STATEMENT, evaluation=evaluation), loaded(replace(PLAN, budget=budget)))
    exponent, factor = re.search(r"a factor of e\^(\S+) \((\S+)\),", text).groups()
    assert f"epsilon at most {exponent} " in text
    exact = Decimal(exponent).exp(Context(prec=40))
    excess = Decimal(factor) - exact
    assert 0 <= excess < Decimal(10) ** (exact.adjusted() - 2)


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        (Adjacency.ADD_REMOVE, "Whether one example is in the data or not changes"),
        (Adjacency.REPLACE_ONE, "Whether the data hold one example or another in its place changes"),
        (Adjacency.ZERO_OUT, "Whether one example contributes to the training or counts as zero changes"),
    ],
)
def test_the_promise_follows_the_relation(adjacency, words):
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, adjacency=adjacency))
    assert words in text_of(replace(STATEMENT, evaluation=evaluation))


def test_without_a_guarantee_nothing_is_promised():
    text = text_of(NOTHING)
    assert "There is no guarantee" in text
    assert "epsilon infinite" in text
    assert not [words for words in ("attacker can gain", "What is covered", "upper bound", "at most") if words in text]
    assert "What is not covered" in text


def test_certain_detection_is_no_more_than_certain():
    certain = replace(STATEMENT, attack=AttackBounds(advantage=1.0, detection=((0.001, 1.0),)))
    assert "detects at most 100%," in text_of(certain)


def test_an_exceeded_budget_is_said():
    config = loaded(replace(PLAN, budget=Budget(epsilon=0.9468)))
    assert "budget 0.9468, 100.01% used: exceeded" in text_of(config=config)


def test_without_sampling_nothing_is_said_of_amplification():
    epsilon = STATEMENT.evaluation.guarantee.epsilon
    texts = [stated("text", replace(STATEMENT, unsampled=epsilon * factor)) for factor in (1, 1.01)]
    assert [text.count("amplification") + text.count("leaves the unit out") for text in texts] == [0, 2]
    assert all("has the weaker guarantee" in " ".join(text.split()) for text in texts)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "latex", "registry"])
def test_nothing_steers_a_terminal(form):
    text = stated(form, HOSTILE_STATEMENT, HOSTILE_LOADED)
    assert all(line.isprintable() for line in text.splitlines())
    assert "\nsecond" not in text


@pytest.mark.parametrize("host", ["www.evil.example", "WWW.Evil.Example", "x/www.evil.example/b.yaml"])
def test_markdown_makes_no_link_of_a_name(host):
    """GitHub makes a link of `www.` and a name, wherever it stands."""
    text = stated("markdown", STATEMENT, loaded(replace(PLAN, name=host), path=host))
    assert "www<!-- -->." in text.lower()
    assert not re.search(r"(?i)www\.", text)


HOSTILE_MARKDOWN = "</td><script>x</script> ![a](http://e.vil) | `c` *b* _i_ # @someone <!-- $x$ & ~s~ [l]: \\"


def test_markdown_shows_every_word_as_it_is():
    config = loaded(replace(PLAN, name=HOSTILE_MARKDOWN), path="a|b.yaml")
    text = stated("markdown", STATEMENT, config)
    title = text.splitlines()[0]
    assert not re.search(r"(?<!\\)[<`*\[|]", title.removeprefix("# ").replace("@<!-- -->", ""))
    assert "http://" not in title
    assert "@someone" not in title
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_a_page_shows_every_word_as_it_is_and_loads_nothing():
    config = loaded(replace(PLAN, name=HOSTILE_MARKDOWN), path="a|b.yaml")
    page = statement_format("html")(replace(statement_view(STATEMENT, config), picture=b"<svg/>"), 80)
    tags = set(re.findall(r"<(\w+)", page))
    assert tags == {"html", "meta", "title", "style", "h1", "h2", "p", "table", "tr", "th", "td", "ul", "li", "img"}
    assert re.findall(r'(?:src|href)="([^"]*)', page) == ["data:image/svg+xml;base64,PHN2Zy8+"]
    shown = unescape(re.sub(r"<[^>]*>", " ", page.partition("<h1>")[2]))
    assert all(text in shown for *_, points in statement_view(STATEMENT, config).sections.values() for text in points)
    assert HOSTILE_MARKDOWN in shown


COMMANDS = "::error::a ::add-mask::b ##[error]c ##vso[task.setvariable]d"


@pytest.mark.parametrize("form", ["text", "markdown", "html", "latex", "registry"])
def test_nothing_is_a_command_to_a_runner(form):
    config = loaded(replace(PLAN, name=COMMANDS), path=COMMANDS)
    text = stated(form, STATEMENT, config)
    assert "error" in text
    assert not re.search(r"^\s*::|##\w*\[", text, flags=re.MULTILINE)
    document = stated("json", STATEMENT, config)
    assert "##" not in document.replace("u0023#", "")
    assert json.loads(document)["config"]["name"] == COMMANDS


# What every form says, the registry of deployments, LaTeX


@pytest.mark.parametrize("form", STATEMENTS)
@pytest.mark.parametrize("tuned", [False, True])
def test_every_form_says_how_the_run_is_released_and_what_is_not_covered(form, tuned):
    config = loaded(replace(PLAN, tuning=Poisson(mean=5.0) if tuned else None))
    text = stated(form, STATEMENT, config)
    words = " ".join(re.sub(r"[\\{}]|&#92;", "", text).split())
    assert "whoever runs the training sees the data, and is trusted to run it as stated" in words
    assert "once: all the steps stated here; a later run on the same data" in words
    assert "everybody may see all that the steps release, each checkpoint" in words
    assert "how the data are collected, stored and secured" in words
    assert ("settings are chosen without these data" in words) is not tuned
    assert ("the best of several runs is released (poisson, 5 on average)" in words) is tuned
    assert ("tuning, and other runs on the same data" in words) is not tuned
    assert "0.587" in words or '"mu": 0.5861035845951474' in words


def test_a_mu_that_sums_nothing_up_is_said_to():
    assert "mu-GDP no good summary of this run: regret 0.0371" in text_of(replace(STATEMENT, gdp=NO_SUMMARY))
    assert "mu-GDP" not in text_of(replace(STATEMENT, gdp=None))


REGISTRY = json.loads((SCHEMAS / "deployments_registry.json").read_text(encoding="utf-8"))


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


def test_the_declared_fields_are_those_of_the_registry():
    entry = yaml.safe_load(stated("registry", STATEMENT, loaded(), published="2026-01-31"))
    others = {"deployment.privacy_loss.privacy_parameters.rho", "deployment.basic.data_product_sector"}
    stated_ones = leaves(entry, lambda each: each if isinstance(each, dict) else None)
    assert stated_ones == leaves(REGISTRY, lambda schema: schema.get("properties")) - others


@pytest.mark.parametrize("config", [loaded(), HOSTILE_LOADED, loaded(replace(PLAN, name=r"a\\b: [\\(x) ..."))])
@pytest.mark.parametrize("statement", [STATEMENT, HOSTILE_STATEMENT, replace(STATEMENT, gdp=None, groups=())])
def test_an_entry_is_valid_once_it_has_a_date(statement, config):
    assert problems(stated("registry", statement, config, published="2026-01-31")) == []
    assert problems(stated("registry", statement, config)) == ["'publication_date' is a required property"]


def test_an_entry_states_what_is_known_and_asks_for_the_others():
    entry = yaml.safe_load(stated("registry", replace(STATEMENT, evaluation=EVALUATION)))
    assert (entry["url_slug"], entry["status"], entry["tier"]) == ("clinic-maml", "Draft", 3)
    deployment = entry["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.946867, "delta": 1e-5}
    assert deployment["privacy_loss"]["privacy_unit"] == "one example"
    assert deployment["basic"]["description"] == "..."
    assert deployment["basic"]["data_curators"] == ["..."]
    assert "publication_date" not in deployment["basic"]


def test_without_a_guarantee_nothing_is_registered():
    with pytest.raises(InputError, match="expected a run with a finite epsilon"):
        stated("registry", NOTHING)


TEX = "\\ { } $ & # ^ _ % ~ < > | \" ' ` -- --- ,, ?` !` ^^5c \\input{/etc/passwd} [x] @"
COMMANDS_OF_ESCAPES = re.compile(
    r"\\(?:text(?:backslash|asciicircum|asciitilde|less|greater|bar|quotedbl|quotesingle|asciigrave)\{\}|[{}$&#_%])"
)


@pytest.mark.parametrize("config", [loaded(), HOSTILE_LOADED, loaded(replace(PLAN, name=TEX), path=TEX, section=TEX)])
def test_latex_is_balanced_whatever_names_hold(config):
    text = stated("latex", HOSTILE_STATEMENT, config)
    head, body = text.split("\\begin{document}\n")
    assert "\\documentclass" in head
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    assert not re.search(r"--|,,|\?`|!`|''|``|<<|>>", COMMANDS_OF_ESCAPES.sub("x", body))
    body = COMMANDS_OF_ESCAPES.sub("", body)
    assert body.count("{") == body.count("}")
    known = {"section", "subsection", "begin", "end", "item"}
    assert set(re.findall(r"\\([A-Za-z]+|.)", body)) <= known
    assert not re.search(r"[$&#^_%~]", body)


def test_a_statement_of_the_best_of_several_runs_follows_from_epsilon_and_delta():
    run = replace(PLAN, tuning=Poisson(mean=5.0))
    made = made_statement(run)
    epsilon, delta = made.evaluation.guarantee.epsilon, run.delta
    # the worst (epsilon, delta)-private mechanism: randomized response, but all is given away with probability delta
    truth = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    lie = (1 - delta) / (1 + math.exp(epsilon))
    assert made.attack.advantage == pytest.approx(delta + truth - lie, rel=1e-12)
    for rate, detected in made.attack.detection:
        exact = delta + truth * rate / lie if rate < lie else delta + truth + lie * (rate - lie) / truth
        assert detected == pytest.approx(min(1.0, exact), rel=1e-9)
    assert (made.groups, made.gdp) == ((), None)
    assert "together" not in text_of(made, loaded(run))
