"""Batches of indices, drawn with NumPy as `poisson`, `balls-in-bins` and `poisson` with `max_batch_size` declare them.

Do not seed the generator in a training that needs the guarantee: who can guess the draws has no amplification by them.
"""

import numpy as np


def poisson(units, rate, steps, random):
    """Yield `steps` batches; each of `units` examples is in a batch with probability `rate`, independently."""
    for _ in range(steps):
        yield np.flatnonzero(random.random(units) < rate)


def capped_poisson(units, rate, max_batch_size, steps, random):
    """Yield `steps` Poisson batches; a larger one than `max_batch_size` is cut to it at random."""
    for batch in poisson(units, rate, steps, random):
        if batch.size <= max_batch_size:
            yield batch
        else:  # not the first ones of the batch: every example must have the same chance to stay
            yield random.choice(batch, max_batch_size, replace=False)


def balls_in_bins(units, bins, passes, random, *, held=False):
    """Yield `bins` batches for each pass; each example chooses one of them, anew in each pass unless `held`."""
    chosen = random.integers(bins, size=units)
    for number in range(passes):
        if number and not held:
            chosen = random.integers(bins, size=units)
        order = np.argsort(chosen, kind="stable")
        yield from np.split(order, np.searchsorted(chosen[order], np.arange(1, bins)))
