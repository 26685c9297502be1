"""Words of other libraries: following a hint gives the run that the word's own library means (rows: corpus/hints.yaml).

The runs are evaluated by dp_accounting and by closed forms. The table of words is the data file that the package reads.
"""

import inspect
import math
import re
from functools import cache
from itertools import product
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

import dpcalc
from dpcalc.planner.evaluate import guarantee
from tests.config.texts import CORPUS, corpus, errors, flat, plan
from tests.oracles.exact_gaussian import exact_epsilon

ROOT = Path(__file__).parents[2]
KEYS = re.findall(r"^\| `([a-z_.]+)` ", (ROOT / "docs/keys.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
TABLES, SHARED = {}, {}
for _line in (ROOT / "dpcalc/config/words.txt").read_text(encoding="utf-8").splitlines():
    if _line.startswith("["):
        _rows = TABLES.setdefault(_line[1:].partition(":")[0], [])
    elif _line and not _line.startswith("#"):
        _rows.append([re.sub(r"\$(\w+)", lambda name: " ".join(SHARED[name[1]]), cell) for cell in _line.split(" | ")])
        if len(_rows[-1]) == 2:
            SHARED[_rows[-1][0]] = _rows[-1][1].split()
RENAMES = {key: [] for key, _, _ in TABLES["renamed"]}
for _key, _, _words in TABLES["renamed"]:
    RENAMES[_key] += _words.split()
SAID = {words: says for _, words, _, says in TABLES["said"]}


def hint(section, word, beside=()):
    """What is said of an unknown key in a section, beside other keys; a list hides its value."""
    draw = {"scheme": "poisson"} if section == "sampling" else {}  # else it is the name of a level
    said = ", ".join(f"{key}: {value}" for key, value in {word: "[]", **draw, **dict(beside)}.items())
    inner = f"{{{said}}}"
    for part in reversed(section.replace("*", "example").split(".")[1:]):
        inner = f"{{{part.removesuffix('[]')}: {f'[{inner}]' if part.endswith('[]') else inner}}}"
    changes = {section.partition(".")[0]: inner} if section else {word: "[]", **dict(beside)}
    return next(each.hint for each in errors(flat(changes)) if f"unknown key `{word}`" in each.message)


def stated(said):
    """The numbers that a hint states, by our key."""
    return dict(re.findall(r"`(\w+): ([\d.]+)`", said))


# An accountant that shares no code with the package.


def poisson_epsilon(rate, sigma, steps, delta):
    """Epsilon of add-remove for Poisson sampled Gaussian noise."""
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    return PLDAccountant().compose(event, steps).get_epsilon(delta)


def gaussian_epsilon(mu, delta):
    """Epsilon of Gaussian noise at distance mu standard deviations."""
    return float(exact_epsilon(1, 1 / mu, delta))


# Runs. The defaults of a run, and how a library's word changes it.

RUN = {"n": 10_000, "batch": 100, "sigma": 1.0, "steps": 200, "delta": 1e-5}
SAME = {"rel": 2e-3, "abs": 2e-3}
# The keys that a number of another tool is copied to: the quantity of the run, and a value that differs from RUN's.
QUANTITIES = {
    "mechanism.noise_multiplier": ("sigma", 2.0),
    "sampling.rate": ("rate", 0.02),
    "sampling.expected": ("batch", 250),
    "training.batch_size": ("batch", 250),
    "training.steps": ("steps", 700),
    "training.epochs": ("epochs", 5),
    "data.examples": ("n", 4000),
    "privacy.delta": ("delta", 1e-6),
    "mechanism.max_grad_norm": ("clip", 7.5),
    "budget.epsilon": ("budget", 3),
}


@cache
def computed(**assignments):
    """Epsilon of a run of dpcalc; `__` stands for a dot."""
    text = f"""
version: 1
data: {{examples: {RUN["n"]}}}
sampling: {{scheme: poisson}}
mechanism: {{noise_multiplier: {RUN["sigma"]}}}
training: {{batch_size: {RUN["batch"]}, steps: {RUN["steps"]}}}
privacy: {{adjacency: add-remove, delta: {RUN["delta"]}}}
"""
    return guarantee(plan(text, [f"{key.replace('__', '.')}={value}" for key, value in assignments.items()])).epsilon


@cache
def meant(**changes):
    run = {**RUN, **changes}
    return poisson_epsilon(run.get("rate", run["batch"] / run["n"]), run["sigma"], run["steps"], run["delta"])


@pytest.mark.parametrize("key", QUANTITIES)
def test_a_renamed_word_is_the_run_that_its_library_means(key):
    quantity, value = QUANTITIES[key]
    for word in RENAMES[key]:
        assert f"dpcalc calls this `{key}`" in hint("", word, {word: value})
    changed = {
        "clip": {},
        "budget": {},
        "epochs": {"steps": value * RUN["n"] // RUN["batch"]},
    }.get(quantity, {quantity: value})
    ours = key.replace("sampling.", "sampling.example.").replace("data.examples", "data.levels[0].count")
    assert computed(**{ours: value}) == pytest.approx(meant(**changed), **SAME)


# Words for a form, not a number of the run above: where the word stands, and the run that its library means.

FLAT = {
    "data": "{examples: 1000}",
    "sampling": "{scheme: poisson, rate: 0.1}",
    "mechanism": "{noise_multiplier: 4}",
    "training": "{steps: 20}",
    "privacy": "{adjacency: add-remove, delta: 1e-5}",
}
SECTIONS_OF = corpus("words")


def config(sections):
    return "version: 1\n" + "".join(f"{name}: {value}\n" for name, value in {**FLAT, **sections}.items() if value)


def gaussian(*distances):
    """Releases with Gaussian noise 4 in which a unit moves the sum by so many clip norms."""
    return lambda _: gaussian_epsilon(math.sqrt(sum(each**2 for each in distances)) / 4, 1e-5)


def scheme(name, value):
    return lambda run: getattr(run.phases[0].hierarchy.level(1).scheme, name) == value


def is_episode(run):
    """An image of 20 in each of 50 classes: 2 tasks of 5 classes draw it with 5/50 x 4/20 each."""
    built = run.phases[0].hierarchy.episodes
    return (built.tasks, built.ways, built.shots, built.queries) == (2, 5, 1, 3)


# By our key: the epsilon, or what the plan then says; the sections stand in corpus/words.yaml.
FORM_RUNS = {
    # every user's clipped vector is in every sum: one clip norm a step, not 20
    "mechanism.clip": gaussian(*[1] * 20),
    # the truth with .4, each of three others with .2
    "mechanism.categories": lambda _: math.log((0.4 - 1e-5) / 0.2),
    # steps 1, 5, ..., 17 of 20, whose columns of length sqrt(1.25) do not meet; noise is relative to that length
    "mechanism.min_separation": gaussian(*[1] * 5),
    "mechanism.max_participations": gaussian(1, 1),
    "mechanism.threshold_noise_multiplier": lambda run: run.phases[0].mechanism.threshold_noise_multiplier == 150,
    "mechanism.type": lambda _: 1 / 2 + 2 * math.log1p(-1e-5),
    "sampling.scheme": gaussian(*[1] * 20),
    "sampling.max_batch_size": scheme("max_batch_size", 120),
    # a group is asked in every fifth step
    "sampling.groups": lambda _: poisson_epsilon(0.1, 4, 4, 1e-5),
    "sampling.times": lambda run: run.phases[0].hierarchy.allocation.times == 5,
    "sampling.max_group_size": scheme("max_group_size", 220),
    # five steps with the same draw are one release at sqrt(5) clip norms
    "sampling.redraw_every": lambda _: poisson_epsilon(0.1, 4 / math.sqrt(5), 4, 1e-5),
    "sampling.episodes": is_episode,
    **{f"sampling.episodes.{key}": is_episode for key in ("tasks", "ways", "shots", "queries")},
    "sampling.drop_last": lambda run: run.phases[0].steps == 20,
    "data.levels": lambda run: [level.count for level in run.phases[0].hierarchy.levels] == [50, 20],
    "data.levels[].count": lambda run: run.phases[0].hierarchy.level(2).count == 20,
    "privacy.adjacency": gaussian(*[2] * 20),
    # all 20 examples of the user, each with a clipped vector of its own
    "privacy.unit": gaussian(*[20] * 20),
    "accounting.method": lambda run: guarantee(run).method == "rdp",
    "tuning": lambda run: run.tuning.mean == 10,
    "tuning.mean": lambda run: run.tuning.mean == 10,
}


@pytest.mark.parametrize("key", list(FORM_RUNS))
def test_a_word_for_a_form_is_the_run_that_its_library_means(key):
    text, truth = config(SECTIONS_OF[key]), FORM_RUNS[key]
    for word in RENAMES[key]:
        said = " ".join(error.hint or "" for error in errors(text.replace("WORD", word)))
        assert f"`{key.rpartition('.')[2]}`" in said or f"`{key}`" in said
    run = plan(text.replace("WORD", key.rpartition(".")[2]))
    expected = truth(run)
    if isinstance(expected, bool):
        assert expected
    else:
        assert guarantee(run).epsilon == pytest.approx(expected, **SAME)


def test_every_key_has_a_run():
    assert FORM_RUNS.keys() == SECTIONS_OF.keys()
    assert RENAMES.keys() == QUANTITIES.keys() | FORM_RUNS.keys()


def test_a_word_stands_in_one_entry():
    words = [word for each in (*SAID, *map(" ".join, RENAMES.values())) for word in each.split()]
    assert len(set(words)) == len(words)
    assert all(re.fullmatch(r"[a-z0-9_]+", word) for word in words)
    values = [(row[0], word) for row in TABLES["values"] for word in row[3].split()]
    values += [(row[0], word) for row in TABLES["values said"] for word in row[2].split()]
    assert len(set(values)) == len(values)


def test_words_and_values_of_one_section():
    for section, key, words in TABLES["renamed in"]:
        for word in words.split() if "noise_multiplier" not in section else ():  # those: corpus/hints.yaml
            assert f"`{key.rpartition('.')[2]}`" in hint(section, word).replace(key, key.rpartition(".")[2])
    places = {"scheme": "sampling", "type": "mechanism", "method": "accounting", "adjacency": "privacy"}
    for key, ours, _, words in TABLES["values"]:
        for word in words.split():
            found = errors(flat({places[key]: f"{{{key}: {word}}}"}))
            assert any(each.hint == f"dpcalc calls this `{ours}`" for each in found), (key, word)


# Words that are said: the conversions, with the numbers beside them.

# Code uses some words for a deviation and for a multiple of the clip norm: with a clip norm below 1 the wrong reading
# is a larger multiplier, and an epsilon that is too low.
EITHER = SHARED["either"]
DEVIATIONS = [word for word in SHARED["absolute"] if "var" not in word and word not in EITHER]
PARTS = [*SHARED["physical"], *SHARED["per_device"]]


@pytest.mark.parametrize("word", [*EITHER, "sigma"])
def test_noise_by_a_word_that_says_either_has_two_readings(word):
    readings = re.findall(r"`noise_multiplier: ([\d.]+)`", hint("mechanism", word, {word: 1.5, "l2_norm_clip": 0.1}))
    assert sorted(readings) == ["1.5", "15"]
    at_one = hint("mechanism", word, {word: 1.5, "max_grad_norm": 1})
    assert "`noise_multiplier" in at_one
    assert set(stated(at_one).values()) <= {"1.5"}
    assert not stated(hint("mechanism", word, {word: 4}))  # the clip norm may stand in another section, or in code


@pytest.mark.parametrize(("deviation", "clip"), [("4.0", "4.0"), ("3", "1.5"), ("1", "0.3")])
def test_an_absolute_deviation_is_divided_by_the_clip_norm(deviation, clip):
    # A library adds noise of this deviation to a sum of vectors no longer than the clip norm.
    sigma = float(deviation) / float(clip)
    for word, norm_word in product(DEVIATIONS, ("l2_norm_clip", "max_grad_norm", "sensitivity")):
        found = stated(hint("mechanism", word, {word: deviation, norm_word: clip}))
        assert sigma * (1 - 1e-8) <= float(found["noise_multiplier"]) <= sigma * (1 + 1e-15), word
    assert computed(mechanism__noise_multiplier=found["noise_multiplier"]) == pytest.approx(meant(sigma=sigma), **SAME)


def test_parts_of_a_batch_are_stated_as_parts():
    # Of Poisson batches their sum is no draw of their product, and a launcher may state another factor: a hint that
    # names the product leads to a cheaper run. As parts, dpcalc asks for what is open.
    pairs = {(part, "accum_steps") for part in PARTS} | {(PARTS[0], each) for each in SHARED["accumulation"]}
    for part, accumulation in pairs:
        said = hint("training", part, {part: 64, accumulation: 4})
        assert "batch_size: {per_device: 64, devices: ..., accumulation: 4, accumulates: ...}" in said
        assert "256" not in said
        assert said == hint("training", accumulation, {part: 64, accumulation: 4})
    assert "per_device: 64, devices: 2, " in hint("", PARTS[0], {PARTS[0]: 64, "accum_steps": 4, "world_size": 2})


def test_a_sum_of_poisson_batches_is_no_poisson_batch():
    parts = "{per_device: 25, devices: 1, accumulation: 4, accumulates: KIND}"
    text = config({"sampling": "{scheme: poisson}", "training": f"{{batch_size: {parts}, steps: 20}}"})
    # An example is in the sum up to 4 times: that moves it by a number that is Binomial(4, .025).
    weights = [math.comb(4, k) * 0.025**k * 0.975 ** (4 - k) for k in range(5)]
    draws, physical = (guarantee(plan(text.replace("KIND", kind))).epsilon for kind in ("draws", "physical"))
    assert physical == pytest.approx(poisson_epsilon(0.1, 4, 20, 1e-5), **SAME)
    # One output alone, by quadrature, costs more than the rate of the product does.
    x = np.linspace(-60, 64, 200_001)
    p = sum(weight * norm.pdf(x, k, 4) for k, weight in enumerate(weights))
    at = poisson_epsilon(0.1, 4, 1, 1e-5)
    assert np.sum(np.maximum(p - math.exp(at) * norm.pdf(x, 0, 4), 0)) * (x[1] - x[0]) > 1e-5
    assert draws > physical


def test_rounds_and_cohorts_of_clients():
    for word in SHARED["cohort"]:
        assert "dpcalc calls this `size`" in hint("sampling.*", word, {"scheme": "fixed", word: 100})
        assert hint("sampling.*", word, {word: 100}).startswith("`scheme: fixed, size: 100`")
    for word in SHARED["rounds"]:  # a client that trains with noise adds it in every local step
        assert "calls this `training.steps`" in hint("", word, {word: 700, "clients_per_round": 10})
        assert "rounds x its own steps" in hint("", word, {word: 700})
    for word in RENAMES["training.steps"]:  # of each iteration, five noisy updates of a critic
        assert "times n_critic" in hint("", word, {word: 700, "n_critic": 5})


def test_microbatches_of_tf_privacy():
    # The mean of a microbatch is clipped: it moves by up to two clip norms, at half the noise multiplier.
    said = hint("training", "num_microbatches", {"num_microbatches": 10, "batch_size": 100})
    assert "`mechanism.clip: batch`" in said
    clipped = computed(mechanism__clip="batch", mechanism__noise_multiplier=2.0)
    assert clipped == pytest.approx(meant(sigma=1.0), **SAME)
    assert "of one example" in hint("", "num_microbatches", {"num_microbatches": 100, "batch_size": 100})
    assert hint("", "sample_size", {"sample_size": 4000, "batch_size": 100}).endswith("so: `data.examples`")


CONVERTED = {*DEVIATIONS, *EITHER, *PARTS, *SHARED["accumulation"], *SHARED["cohort"], *SHARED["rounds"]}
CONVERTED |= {"sensitivity", "l2_sensitivity", "l1_sensitivity", "sigma", "sample_size", "poisson_sampling", "shuffle"}
CONVERTED |= {"with_replacement", "replacement", "target_epsilon", "target_eps", "central_epsilon", "dp_epsilon"}
CONVERTED |= {"num_microbatches", "microbatches", "used_microbatching", "num_micro_batches", "cycle_length"}
CONVERTED |= {"clipping", "clipping_mode", "clipping_fn", "clipping_style", "clipping_method"}
HERE = {(section, word) for section, _, words in TABLES["renamed in"] for word in words.split()}


@pytest.mark.parametrize("more", ["scheme: poisson", "scheme: fixed, batch_size: 100, max_grad_norm: 2"])
def test_no_other_word_leads_to_a_key_with_its_value(more):
    for words, says in SAID.items():
        for word in set(words.split()) - CONVERTED - {key.rpartition(".")[2] for key in KEYS}:
            sections = [each for each in ("mechanism", "training", "sampling", "data") if (each, word) not in HERE]
            found = errors(flat(dict.fromkeys(sections, f"{{{word}: 7919, {more}}}") | {word: "7919"}))
            said = [each.hint for each in found if f"unknown key `{word}`" in each.message]
            assert len(said) == len(sections) + 1, word
            for each in said:
                assert "dpcalc calls this" not in each
                assert ": 7919" not in each or word in SHARED["units"]
        assert says[-1] not in ".:"


# Spelling.

QUALIFIERS = (
    "min max local micro physical per num clipped virtual global total mean avg initial final target server client "
    "user noise public eval test inner outer sub mini macro batch step epoch unclipped expected effective first last "
    "base"
)


def test_no_spelling_hint_leads_to_another_quantity():
    sections = {}
    for key in KEYS:
        section, _, name = key.rpartition(".")
        if "." not in section and len(name) > 2:
            forms = (f"{{0}}_{name}", f"{name}_{{0}}", f"{{0}}{name}")
            sections.setdefault(section, set()).update(
                form.format(qualifier) for form in forms for qualifier in QUALIFIERS.split()
            )
            sections[section] -= {"maxbatch_size"}
    assert {"", "sampling", "mechanism", "training"} <= sections.keys()
    for section, words in sections.items():
        entries = dict.fromkeys(sorted(words), "1")
        changes = {section: f"{{{', '.join(f'{word}: 1' for word in entries)}}}"} if section else entries
        found = errors(flat(changes))
        assert len(found) > len(words) / 2
        assert not [each.message for each in found if "did you mean" in each.hint]
    # Arguments of `plan` as well.
    for argument, qualifier in product(inspect.signature(dpcalc.plan).parameters, QUALIFIERS.split()):
        with pytest.raises(TypeError) as caught:
            dpcalc.plan(**{f"{qualifier}_{argument}": 1})
        assert "did you mean" not in str(caught.value)


def words_page():
    """The page `docs/words.md`, written from the tables."""

    def rows(form, table, at):
        return "\n".join(
            form.format(*row[:at], ", ".join(f"`{word}`" for word in row[at].split()), *row[at + 1 :]) for row in table
        )

    said = [(library, words, hint("", words.split()[0])) for library, words, _, _ in TABLES["said"]]
    places = [(section or "flags", key, words) for section, key, words in TABLES["renamed in"]]
    return (CORPUS / "words_page.md").read_text(encoding="utf-8").format(
        renamed=rows("| {1} | {2} | `{0}` |", TABLES["renamed"], 2),
        places=rows("| in `{0}` | {2} | `{1}` |", places, 2),
        said=rows("| {0} | {1} | {2} |", said, 1),
        values=rows("| `{0}` | {2} | {3} | `{1}` |", TABLES["values"], 3),
        values_said=rows("| `{0}` | {1} | {2} | {3} |", TABLES["values said"], 2),
    )  # fmt: skip


def test_the_page_is_written_from_the_table(same_as_file):
    same_as_file(words_page(), ROOT / "docs" / "words.md")
