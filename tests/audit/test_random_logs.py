"""Honest logs of random nested plans, small and degenerate ones among them, are not contradicted."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpcalc.audit.audit import audit_log
from dpcalc.config.load import load_text
from tests.audit.loaders import jsonl

SMALL, MANY = 60, 3000


def random_draw(rng, fewest, *, is_simple):
    """(text of a draw from frames of at least `fewest` units, function that draws from a frame).

    A simple one may be held, and lie below a draw with replacement.
    """
    rate = float(rng.choice([0.01, 0.05, 0.3, 0.5, 0.9, 1]))
    size = int(rng.integers(1, fewest + 1))
    repeats = int(rng.integers(1, fewest + 3))
    draws = [
        (f"scheme: poisson, rate: {rate}", lambda n: np.flatnonzero(rng.random(n) < rate)),
        (f"scheme: fixed, size: {size}", lambda n: rng.permutation(n)[:size]),
        (f"scheme: fixed, size: {{at_most: {size}}}", lambda n: rng.permutation(n)[:size]),
        ("scheme: all", np.arange),
        (
            f"scheme: poisson, rate: {rate}, max_batch_size: {size}",
            lambda n: rng.permutation(np.flatnonzero(rng.random(n) < rate))[:size],
        ),
        (f"scheme: with-replacement, size: {repeats}", lambda n: rng.integers(0, n, repeats)),
    ]
    return draws[rng.integers(0, len(draws) - 2 * is_simple)]


def random_log(rng):
    """(text of a config, batches of an honest loader)."""
    tasks, steps, is_tree = int(rng.integers(2, 25)), int(rng.integers(1, 80)), rng.random() < 0.4
    sizes = rng.integers(1, 9, tasks).tolist() if is_tree else [int(rng.integers(1, 9))] * tasks
    inner = int(rng.choice([1, 1, 2, 3]))
    outer = inner * int(rng.choice([1, 1, 2]))
    words, draw_tasks = random_draw(rng, tasks, is_simple=outer > 1)
    inner_words, draw_examples = random_draw(rng, min(sizes), is_simple=inner > 1 or "replacement" in words)
    counts = ("", "") if is_tree else (f", count: {tasks}", f", count: {sizes[0]}")
    config = f"""\
version: 1
data: {{levels: [{{name: task{counts[0]}}}, {{name: example{counts[1]}}}]{f", tree: {sizes}" if is_tree else ""}}}
sampling:
  task: {{{words}{f", redraw_every: {outer}" if outer > 1 else ""}}}
  example: {{{inner_words}{f", redraw_every: {inner}" if inner > 1 else ""}}}
mechanism: {{noise_multiplier: 20, clip: task}}
training: {{steps: {steps}}}
privacy: {{unit: task, adjacency: zero-out, delta: 1e-3}}
"""
    log = []
    for step in range(steps):
        if step % outer == 0:
            drawn = draw_tasks(tasks)
        if step % inner == 0:
            batch = [[int(task), int(example)] for task in drawn for example in draw_examples(sizes[task])]
        log.append(batch)
    return config, log


def alarms(seeds, path):
    """How many logs have a p-value so small that one in twenty honest logs may have it; none is contradicted."""
    count = 0
    for seed in seeds:
        config, log = random_log(np.random.default_rng(seed))
        path.write_text(jsonl(log), encoding="utf-8")
        result = audit_log(load_text(config, path="run.yaml").accepted().plan, str(path), on_progress=lambda _: None)
        assert result.agrees, (seed, result.findings)
        assert all(test.observed >= 0 and test.log_p_value <= 0 for *_, test in result.tests)
        share = math.log(0.05 / max(1, len(result.tests)))
        count += any(test.log_p_value <= share for *_, test in result.tests)
    return count


@pytest.mark.heavy
def test_random_honest_logs_pass(tmp_path):
    assert alarms(range(SMALL), tmp_path / "log") < SMALL / 3


@pytest.mark.slow
def test_many_random_honest_logs_pass(tmp_path):
    assert binom.sf(alarms(range(SMALL, MANY), tmp_path / "log") - 1, MANY - SMALL, 0.05) > 1e-6
