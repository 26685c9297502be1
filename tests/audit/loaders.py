"""Simulated loaders, honest and not: batches drawn index by index, without any code of dpcalc."""

import json
from itertools import count, islice

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


def poisson(rng, *, units=UNITS, rate=BATCH / UNITS, steps=STEPS):
    return [np.flatnonzero(rng.random(units) < rate).tolist() for _ in range(steps)]


def fixed(rng, *, units=UNITS, size=BATCH, steps=STEPS):
    return [rng.choice(units, size, replace=False).tolist() for _ in range(steps)]


def with_replacement(rng, *, units=UNITS, size=BATCH, steps=STEPS):
    return rng.integers(0, units, (steps, size)).tolist()


def shuffled(rng, *, units=UNITS, size=BATCH, steps=STEPS, drop_last=False):
    def batches():
        while True:
            order = rng.permutation(units)
            for begin in range(0, units - size * drop_last + 1 if drop_last else units, size):
                yield order[begin : begin + size].tolist()

    return list(islice(batches(), steps))


def duplicated_rank(rng, *, units=UNITS, rate=BATCH / UNITS, steps=STEPS):
    """Two workers, each with a half of the data, that draw with the same seed."""
    halves = (np.flatnonzero(rng.random(units // 2) < rate) for _ in range(steps))
    return [[*half.tolist(), *(half + units // 2).tolist()] for half in halves]


def same_seed_in_every_pass(rng, *, units=UNITS, rate=BATCH / UNITS, steps=STEPS):
    """The generator is seeded anew in every pass, so that the batches of all passes are the same."""
    once = poisson(rng, units=units, rate=rate, steps=int(1 / rate))
    return [once[step % len(once)] for step in range(steps)]


def held(rng, *, period, **values):
    """A poisson draw that is kept for several steps."""
    return [batch for batch in poisson(rng, **values) for _ in range(period)][: values.get("steps", STEPS)]


def blocks(rng, *, units=UNITS, size=BATCH, steps=STEPS):
    """Batches of neighbours, as shards give them: the first one at random."""
    begins = rng.integers(0, units, steps)
    return [((begin + np.arange(size)) % units).tolist() for begin in begins]


def buffered(rng, *, units=UNITS, size=BATCH, steps=STEPS, capacity=500):
    """A shuffle buffer over a stream in the order of the data."""
    stream = (index % units for index in count())
    waiting = list(islice(stream, capacity))

    def take():
        place = int(rng.integers(capacity))
        index, waiting[place] = waiting[place], next(stream)
        return index

    return [[take() for _ in range(size)] for _ in range(steps)]


def capped(rng, *, most, units=UNITS, rate=BATCH / UNITS, steps=STEPS):
    """Poisson batches cut at random to a maximum."""
    batches = poisson(rng, units=units, rate=rate, steps=steps)
    return [batch if len(batch) <= most else rng.choice(batch, most, replace=False).tolist() for batch in batches]


def nested(rng, tasks, examples, *, steps=NESTED_STEPS, periods=(1, 1)):
    """Paths of two levels: functions that draw tasks, and examples of a task."""
    log = []
    for step in range(steps):
        if step % periods[0] == 0:
            drawn = tasks(rng)
        if step % periods[1] == 0:
            paths = [[int(task), int(example)] for task in drawn for example in examples(rng, int(task))]
        log.append(paths)
    return log
