"""Simulated loaders, honest and not: batches drawn index by index, without any code of dpcalc."""

import json
from itertools import chain, count, cycle, islice, repeat

import numpy as np

UNITS, BATCH, STEPS = 3000, 50, 2000
NESTED_STEPS = 400


def flat_config(scheme, *, units=UNITS, batch=BATCH, steps=STEPS, length="batch_size: {batch}, "):
    """A config of one level."""
    size = length.format(batch=batch)
    return f"""\
version: 1
data: {{examples: {units}}}
sampling: {scheme if scheme.startswith("{") else f"{{scheme: {scheme}}}"}
mechanism: {{noise_multiplier: 2}}
training: {{{size}steps: {steps}}}
privacy: {{adjacency: add-remove, delta: 1e-6}}
"""


def nested_config(task, example, *, tasks=60, examples=12, steps=NESTED_STEPS, tree=None):
    """A config of two levels."""
    levels = (
        "{name: task}, {name: example}"
        if tree
        else f"{{name: task, count: {tasks}}}, {{name: example, count: {examples}}}"
    )
    return f"""\
version: 1
data: {{levels: [{levels}]{f", tree: {tree}" if tree else ""}}}
sampling: {{task: {task}, example: {example}}}
mechanism: {{noise_multiplier: 20, clip: task}}
training: {{steps: {steps}}}
privacy: {{unit: task, adjacency: zero-out, delta: 1e-3}}
"""


def jsonl(batches):
    """The text of a log."""
    return "".join(f"{json.dumps(batch)}\n" for batch in batches)


def poisson(rng, *, units=UNITS, rate=BATCH / UNITS):
    while True:
        yield np.flatnonzero(rng.random(units) < rate).tolist()


def fixed(rng, *, units=UNITS, size=BATCH):
    while True:
        yield rng.choice(units, size, replace=False).tolist()


def with_replacement(rng, *, units=UNITS, size=BATCH):
    while True:
        yield rng.integers(0, units, size).tolist()


def shuffled(rng, *, units=UNITS, size=BATCH, drop_last=False):
    while True:
        order = rng.permutation(units)
        for begin in range(0, units - size + 1 if drop_last else units, size):
            yield order[begin : begin + size].tolist()


def same_passes(rng, *, units=UNITS, size=BATCH):
    """The batches of one shuffled pass again and again."""
    return cycle(islice(shuffled(rng, units=units, size=size), -(-units // size)))


def balls_in_bins(rng, *, units=UNITS, bins=UNITS // BATCH, is_held=False):
    chosen = rng.integers(0, bins, units)
    while True:
        for step in range(bins):
            yield np.flatnonzero(chosen == step).tolist()
        if not is_held:
            chosen = rng.integers(0, bins, units)


def cyclic_poisson(rng, *, groups, rate, units=UNITS):
    group = rng.integers(0, groups, units)
    for step in count():
        yield np.flatnonzero((group == step % groups) & (rng.random(units) < rate)).tolist()


def cut(rng, batches, *, cap):
    """Of larger batches a random part."""
    for batch in batches:
        yield batch if len(batch) <= cap else rng.choice(batch, cap, replace=False).tolist()


def random_allocation(rng, *, times, steps, units=UNITS):
    log = [[] for _ in range(steps)]
    for unit in range(units):
        for step in rng.choice(steps, times, replace=False):
            log[step].append(unit)
    return log


def duplicated_rank(rng, *, units=UNITS, rate=BATCH / UNITS):
    """Two workers, each with a half of the data, that draw with the same seed."""
    for half in poisson(rng, units=units // 2, rate=rate):
        yield half + [index + units // 2 for index in half]


def same_seed_in_every_pass(rng, *, rate=BATCH / UNITS):
    """The generator is seeded anew in every pass, so that the batches of all passes are the same."""
    return cycle(islice(poisson(rng, rate=rate), int(1 / rate)))


def held(rng, *, period):
    """A poisson draw that is kept for several steps."""
    return chain.from_iterable(repeat(batch, period) for batch in poisson(rng))


def blocks(rng, *, units=UNITS, size=BATCH):
    """Batches of neighbours, as shards give them, from a random place on."""
    while True:
        yield ((rng.integers(units) + np.arange(size)) % units).tolist()


def buffered(rng, *, units=UNITS, size=BATCH, capacity=500):
    """A shuffle buffer over a stream in the order of the data."""
    stream = (index % units for index in count())
    waiting = list(islice(stream, capacity))
    while True:
        batch = []
        for place in rng.integers(0, capacity, size):
            batch.append(waiting[place])
            waiting[place] = next(stream)
        yield batch


def capped(rng, *, most):
    """Poisson batches cut at random to a maximum."""
    for batch in poisson(rng):
        yield batch if len(batch) <= most else rng.choice(batch, most, replace=False).tolist()


def nested(rng, tasks, examples, *, periods=(1, 1)):
    """Paths of two levels: functions that draw tasks, and examples of a task."""
    for step in count():
        if step % periods[0] == 0:
            drawn = tasks(rng)
        if step % periods[1] == 0:
            paths = [[int(task), int(example)] for task in drawn for example in examples(rng, int(task))]
        yield paths
