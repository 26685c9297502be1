"""`audit-sampler` catches loaders that draw otherwise than declared, and passes honest ones."""

import math
import re
from functools import partial
from itertools import chain, count, cycle, islice, product, repeat
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binom

from dpcalc.audit.audit import audit_log
from dpcalc.config.load import load_text
from tests.audit import loaders
from tests.audit.loaders import BATCH, NESTED_STEPS, STEPS, UNITS, flat_config, jsonl, nested, nested_config
from tests.thinning import thinned

ROWS = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"))
TREE = [3, 5, 9, 12, 4, 7] * 10


def draw(kind, count, amount=0, most=None):
    """A function that draws indices of a frame; of more than `most` a random part stays."""

    def drawn(rng, *_):
        match kind:
            case "all":
                found = range(count)
            case "fixed":
                found = rng.choice(count, amount, replace=False)
            case "poisson":
                found = np.flatnonzero(rng.random(count) < amount)
            case "with-replacement":
                found = rng.integers(0, count, amount)
        return found if most is None else rng.permutation(found)[:most]

    return drawn


def tasks_of(batches, rng, examples):
    """Paths of examples of the tasks in batches of tasks."""
    return ([[task, int(example)] for task in batch for example in examples(rng)] for batch in batches)


def tasks_of_bins(rng, tasks, examples, bins):
    """Paths of all tasks, in each of which the examples choose their steps."""
    each_task = [loaders.balls_in_bins(rng, units=examples, bins=bins) for _ in range(tasks)]
    for batches in zip(*each_task, strict=True):
        yield [[task, example] for task, batch in enumerate(batches) for example in batch]


def correlated(sampling, limits, *, steps=STEPS, units=UNITS, bands=4):
    """A config with correlated noise."""
    strategy = f"type: matrix-factorization, strategy: {{banded: {{bands: {bands}}}}}, noise_multiplier: 9{limits}"
    text = flat_config(sampling, units=units, length="", steps=steps).replace("noise_multiplier: 2", strategy)
    return text.replace("add-remove", "zero-out")


def declared(key):
    """By name: a config, a loader, and what else the table says."""
    builders = {"flat": flat_config, "correlated": correlated}
    return {
        name: (builders[kind](*given, **options), partial(getattr(loaders, loader), **more), *said)
        for name, (kind, given, options, loader, more, *said) in ROWS[key].items()
    }


def nested_ones(key):
    """By name: a config of two levels, a loader, and what else the table says."""
    return {
        name: (nested_config(*schemes, **options), nested_loader(draw(*tasks), draw(*examples), **more), *said)
        for name, (schemes, options, tasks, examples, more, *said) in ROWS[key].items()
    }


def nested_loader(tasks, examples, **more):
    return lambda rng: nested(rng, tasks, examples, **more)


def tasks_of_rounds(scheme, loader, **more):
    """Tasks that a loader draws, and a tenth of the examples of each."""
    config = nested_config(scheme, "{scheme: poisson, rate: 0.1}", steps=more.get("steps", NESTED_STEPS))
    batches = getattr(loaders, loader)
    return config, lambda rng: tasks_of(batches(rng, units=60, **more), rng, draw("poisson", 12, 0.1))


CUT_GROUPS = "{scheme: cyclic-poisson, groups: 7, rate: 0.1, max_batch_size: 10, max_group_size: 150}"
FIXED_EPOCHS = ", min_separation: 60, participation: fixed-epochs"
HONEST = {
    **declared("honest"),
    **nested_ones("honest nested"),
    **{name: tasks_of_rounds(scheme, loader, **more) for name, (scheme, loader, more) in ROWS["honest rounds"].items()},
    "cyclic poisson, cut": (
        correlated(CUT_GROUPS, "", units=600),
        lambda rng: loaders.cut(rng, loaders.cyclic_poisson(rng, groups=7, rate=0.1, units=600), cap=10),
    ),
    "all, balls in bins": (
        nested_config("{scheme: all}", "{scheme: balls-in-bins, bins: 5}", tasks=7),
        lambda rng: tasks_of_bins(rng, 7, 12, 5),
    ),
    **{
        f"{name} of tasks of unequal sizes": (
            nested_config(scheme, "{scheme: poisson, rate: 0.1}", tree=TREE, steps=steps),
            lambda rng, name=name, more=more: (
                [[task, int(example)] for task in batch for example in draw("poisson", TREE[task], 0.1)(rng)]
                for batch in getattr(loaders, name)(rng, units=60, **more)
            ),
        )
        for name, scheme, more, steps in [
            ("balls_in_bins", "{scheme: balls-in-bins, bins: 11}", {"bins": 11}, NESTED_STEPS),
            ("random_allocation", "{scheme: random-allocation, times: 9}", {"times": 9, "steps": 150}, 150),
        ]
    },
    "several draws a step": (
        flat_config("{scheme: poisson, rate: 1/100, draws: 3}", length=""),
        lambda rng: summed(loaders.poisson(rng, rate=0.01), 3),
    ),
    "all": (flat_config("all", units=20, length=""), lambda _: repeat(list(range(20)))),
    "tree": (
        nested_config("{scheme: poisson, rate: 0.1}", "{scheme: fixed, size: 2}", tree=TREE),
        nested_loader(draw("poisson", 60, 0.1), lambda rng, task: rng.choice(TREE[task], 2, replace=False)),
    ),
    "tree, poisson": (
        nested_config("{scheme: all}", "{scheme: poisson, rate: 0.05}", tree=TREE),
        nested_loader(draw("all", 60), lambda rng, task: draw("poisson", TREE[task], 0.05)(rng)),
    ),
}


@pytest.fixture
def audited(tmp_path):
    """Audit batches against the text of a config."""

    def run(config, batches):
        plan = load_text(config, path="run.yaml").plan
        path = tmp_path / "log.jsonl"
        batches = islice(chain(batches, repeat([])), plan.steps)
        path.write_text(jsonl(batches), encoding="utf-8")
        return audit_log(plan, str(path), on_progress=lambda _: None)

    return run


@pytest.mark.parametrize("name", HONEST)
def test_honest_logs_pass(audited, name):
    config, loader = HONEST[name]
    honest = audited(config, loader(np.random.default_rng(7)))
    assert honest.agrees
    assert honest.findings == ()
    # Which statistics are tested must not depend on the log, else their shares of the false alarm would not add up.
    empty = audited(config, repeat([]))
    assert [(level, test.kind) for _, level, test in empty.tests] == [
        (level, test.kind) for _, level, test in honest.tests
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_a_thousand_honest_logs_pass(audited, name):
    """And at a false alarm that can be seen, 5%, no more logs are contradicted than that."""
    config, loader = HONEST[name]
    config = re.sub(r"steps: \d+", "steps: 150", config)
    alarms = 0
    for seed in range(1000, 2000):  # small seeds are those of orders that everybody can draw
        result = audited(config, loader(np.random.default_rng(seed)))
        assert result.agrees, (seed, result.findings)
        alarms += any(test.log_p_value <= math.log(0.05 / len(result.tests)) for *_, test in result.tests)
    assert binom.sf(alarms - 1, 1000, 0.05) > 1e-6


def summed(batches, parts):
    """Steps of several batches each, as accumulated gradients take them."""
    return ([unit for batch in islice(batches, parts) for unit in batch] for _ in count())


def seeded_passes(order):
    """Shuffled passes of 70 in an order that follows from the number of the pass."""
    orders = (list(map(int, order(number))) for number in count())
    return (one[begin : begin + 70] for one in orders for begin in range(0, UNITS, 70))


def torch_order(number, units=UNITS):
    """Python's generator, seeded as PyTorch seeds its own, and PyTorch's way to shuffle."""
    numbers, order = np.random.RandomState(number).randint(0, 2**32, units - 1, dtype=np.uint32), list(range(units))
    for place, drawn in enumerate(numbers.tolist()):
        other = place + drawn % (units - place)
        order[place], order[other] = order[other], order[place]
    return order


def test_the_order_of_pytorch():
    # As its documentation prints it: torch.manual_seed(0); torch.randperm(10)
    assert torch_order(0, 10) == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]


def delayed(rng):
    """The second pass begins a step late."""
    batches = list(islice(loaders.same_passes(rng), 60))
    return chain(batches, [[]], cycle(batches))


def bucketed(rng):
    """Random batches of 20 to 80, as batches by length are."""
    while True:
        yield rng.choice(UNITS, rng.integers(20, 81), replace=False).tolist()


def varied_passes(rng):
    """Passes of batches whose sizes vary."""
    while True:
        for batch in np.split(rng.permutation(UNITS), np.unique(rng.integers(1, UNITS // 10, 60)) * 10):
            yield batch.tolist()


def weighted(rng):
    """Neighbours of one class have one weight."""
    weights = np.repeat(0.4 + rng.exponential(size=UNITS // 2), 2)
    return (rng.choice(UNITS, BATCH, p=weights / weights.sum()).tolist() for _ in count())


def halves(join):
    """Two workers that draw fixed batches of the same numbers, each from its own part of the data."""
    return lambda rng: (join(half) for half in loaders.fixed(rng, units=UNITS // 2, size=25))


def of_loader(declared, loader, *sentences, **options):
    """A config of one level; bins and times state the length of a batch."""
    length = {"length": ""} if "bins:" in declared or "times:" in declared else {}
    return flat_config(declared, **{**length, **options}), loader, *sentences


UNNAMED = ("excludes that", "!this is `")
FILES = (
    (lambda rng: loaders.shuffled(rng, units=5000, size=50)),
    "once per pass of about 100 batches: this is `shuffle`",
)
LARGE = {"units": 5000, "steps": 1000}
OTHERS = {
    **{
        name: of_loader(scheme, partial(getattr(loaders, loader), **options), sentence)
        for name, (scheme, loader, options, sentence) in ROWS["dishonest"].items()
    },
    **declared("beyond limits"),
    **nested_ones("dishonest nested"),
    "balls in bins, declared random allocation": of_loader(
        "{scheme: random-allocation, times: 33}",
        lambda rng: islice(loaders.balls_in_bins(rng), 1980),
        "this is `balls-in-bins`, not `random-allocation`",
    ),
    "two workers with the same seed, all data": of_loader(
        "poisson",
        lambda rng: (batch * 2 for batch in loaders.poisson(rng, rate=BATCH / UNITS / 2)),
        "each example of a batch stands 2 times in it: do 2 workers draw with the same seed?",
    ),
    "two workers, fixed halves": of_loader(
        "fixed",
        halves(lambda half: half + [index + UNITS // 2 for index in half]),
        "do several workers draw with the same seed?",
    ),
    "two workers, every other example": of_loader(
        "fixed",
        halves(lambda half: [2 * i for i in half] + [2 * i + 1 for i in half]),
        "neighbouring units of level example come together",
    ),
    "cut to the first ones, declared cut at random": of_loader(
        "{scheme: poisson, max_batch_size: 50}",
        lambda rng: (batch[:50] for batch in loaders.poisson(rng)),
        "draws of one part of a frame",
    ),
    "one example drawn twice as often": of_loader(
        "poisson",
        lambda rng: (sorted({*batch, *([7] if rng.random() < 0.1 else [])}) for batch in loaders.poisson(rng)),
        "example 7 is drawn",
    ),
    "the same order in every pass": of_loader(
        "{scheme: shuffle, order: secret}",
        lambda _: loaders.same_passes(np.random.default_rng(99), size=70),
        "the order is not drawn anew for each pass",
        batch=70,
    ),
    "the orders of seeds of PyTorch": of_loader(
        "{scheme: shuffle, order: secret}",
        lambda _: seeded_passes(torch_order),
        "begin as torch.randperm does, seeded by the number of the pass",
        batch=70,
    ),
    "the orders of seeds of NumPy": of_loader(
        "{scheme: shuffle, order: secret}",
        lambda _: seeded_passes(lambda number: np.random.default_rng(number).permutation(UNITS)),
        "begin as numpy.random.default_rng does",
        batch=70,
    ),
    "not at its place": (correlated("any-order", FIXED_EPOCHS), delayed, "is not at its place of the epoch before"),
    "not cut": (
        correlated(CUT_GROUPS, "", units=600),
        lambda rng: loaders.cut(rng, loaders.cyclic_poisson(rng, groups=7, rate=0.1, units=600), cap=12),
        "draws hold more than `max_batch_size: 10`",
    ),
    "a pass without its last batch, declared poisson": of_loader(
        "poisson",
        lambda rng: loaders.shuffled(rng, size=70, drop_last=True),
        "each example once per pass of about 43 batches: this is `shuffle`",
        batch=70,
    ),
    "a pass without its last batch": of_loader(
        "shuffle",
        lambda rng: loaders.shuffled(rng, size=70, drop_last=True),
        "no batch is smaller than the others: the loader leaves out the end of a pass, `drop_last: true`",
        batch=70,
    ),
    "a pass with its last batch": of_loader(
        "{scheme: shuffle, drop_last: true}", lambda rng: loaders.shuffled(rng, size=70), "`drop_last: false`", batch=70
    ),
    "the same examples of a task": (
        nested_config("{scheme: poisson, rate: 0.1}", "{scheme: fixed, size: 5}"),
        nested_loader(draw("poisson", 60, 0.1), lambda _, task: [(task + k) % 12 for k in range(5)]),
        "100% of draws take the same units of level example",
    ),
    "first examples oftener": (
        nested_config("{scheme: fixed, size: 6}", "{scheme: poisson, rate: 0.25}"),
        nested_loader(draw("fixed", 60, 6), lambda rng, _: np.flatnonzero(rng.random(12) < np.linspace(0.4, 0.1, 12))),
    ),
    "two batches of one size a step": of_loader(
        "fixed",
        lambda rng: summed(loaders.fixed(rng, size=25), 2),
        "2 batches of one size are added up in each step",
    ),
    **{
        f"batches of a loader where {declared} steps are of {batch}": of_loader(
            declared, *FILES, f", not `{declared}`", *told, batch=batch, **LARGE
        )
        for declared, batch, *told in [
            *(
                (scheme, batch, f"they hold 50 units, and {batch} are declared: are {batch // 50} of them one step?")
                for scheme, batch in (("poisson", 200), ("fixed", 200), ("poisson", 150))
            ),
            ("with-replacement", 100),
        ]
    },
    "a pass of other batches": of_loader("shuffle", lambda rng: loaders.shuffled(rng, size=200), *UNNAMED),
    "a pass of batches that vary": of_loader("poisson", varied_passes, *UNNAMED),
    "sizes that vary more than Poisson": of_loader("fixed", bucketed, *UNNAMED),
    "sizes that vary more than Poisson, declared a pass": of_loader("shuffle", bucketed, *UNNAMED),
    "entries of two workers, in part the same": of_loader(
        "poisson", lambda rng: (batch + batch[: len(batch) // 2] for batch in loaders.poisson(rng)), *UNNAMED
    ),
    "weighted units": of_loader(
        "with-replacement", weighted, "drawn with unequal probabilities, example", "are they weighted?"
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loaders_are_contradicted(audited, name):
    """In one sentence, with some words and without those after `!`."""
    config, loader, *sentences = OTHERS[name]
    result = audited(
        config, ([*map(int, batch)] if np.ndim(batch) == 1 else batch for batch in loader(np.random.default_rng(5)))
    )
    assert not result.agrees
    (finding,) = result.findings
    for words in sentences:
        assert (words.removeprefix("!") in finding) is not words.startswith("!"), finding


@pytest.mark.parametrize("order", [torch_order, lambda number: np.random.default_rng(number).permutation(UNITS)])
def test_orders_that_nobody_need_hide_are_honest(audited, order):
    assert audited(flat_config("shuffle", batch=70), seeded_passes(order)).agrees


@pytest.mark.parametrize(
    ("declared", "parts"),
    thinned(product(("poisson", "fixed", "shuffle", "{scheme: poisson, max_batch_size: 90}"), (2, 3, 4, 6, 8)), 7),
)
def test_accumulated_poisson_batches_are_named(audited, declared, parts):
    """Their sizes vary, as those of draws with replacement do not, and two entries are equal less often."""
    log = summed(loaders.poisson(np.random.default_rng(parts), rate=BATCH / UNITS / parts), parts)
    (finding,) = audited(flat_config(declared), log).findings
    assert "with-replacement" not in finding
    if "repeats within a pass" in finding:  # what a declared pass excludes first
        return
    few, most = re.search(r"(\d+)(?: to (\d+)| or more)? `poisson` batches are added up in each step", finding).groups()
    assert int(few) <= parts <= int(most or (few if " or more" not in finding else parts))
