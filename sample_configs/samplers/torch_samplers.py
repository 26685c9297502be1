"""The same batches for PyTorch: DataLoader(data, batch_sampler=LoggedBatches(BallsInBins(60_000, 235), "log.jsonl")).

A batch may be empty: the loader's `collate_fn` must accept that, and the step must add its noise all the same.
"""

import json

import numpy as np
from draws import balls_in_bins, capped_poisson
from torch.utils.data import Sampler


class BallsInBins(Sampler):
    """One pass of `bins` batches: each of `units` examples is in one of them, chosen anew in every pass."""

    def __init__(self, units, bins, random=None):
        self.units, self.bins = units, bins
        self.random = random or np.random.default_rng()

    def __iter__(self):
        for batch in balls_in_bins(self.units, self.bins, 1, self.random):
            yield batch.tolist()

    def __len__(self):
        return self.bins


class CappedPoisson(Sampler):
    """`steps` Poisson batches of rate `rate`, cut at random to `max_batch_size`."""

    def __init__(self, units, rate, max_batch_size, steps, random=None):
        self.settings, self.steps = (units, rate, max_batch_size, steps), steps
        self.random = random or np.random.default_rng()

    def __iter__(self):
        for batch in capped_poisson(*self.settings, self.random):
            yield batch.tolist()

    def __len__(self):
        return self.steps


class LoggedBatches(Sampler):
    """The batches of another batch sampler, each appended to a log for `dpcalc audit-sampler`."""

    def __init__(self, batches, path):
        self.batches, self.path = batches, path

    def __iter__(self):
        with open(self.path, "a") as log:
            for batch in self.batches:
                log.write(json.dumps([int(index) for index in batch]) + "\n")
                yield batch

    def __len__(self):
        return len(self.batches)
