"""What tools printed that are not installed here, or that take minutes: rows of recorded.csv beside our own.

All rows: flat Poisson sampling, add-remove. Caps when they were recorded: 90 seconds, 12 GB, two cores. Kinds:

    upper            a bound, as the tool claims
    interval         lower and upper
    approximation    claims nothing
    below the truth  an approximation below what an actual data set costs
    negative         no epsilon at all
    anything else    how the tool failed, without a number
"""

import csv
import math
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from tests.peers.settings import Flat, ours

with Path(__file__).with_name("recorded.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))
PRINTED = {"upper", "interval", "approximation", "below the truth", "negative"}


@cache
def our_interval(rate, sigma, steps, delta):
    return ours(Flat(rate, float(sigma), int(steps), float(delta)).plan)


def rounded(text, sign):
    """The end of what a tool rounded to these digits."""
    return float(text) + sign * 0.5 * 10.0 ** Decimal(text).as_tuple().exponent


def title(row):
    return " ".join(row[name] for name in ("tool", "accountant", "rate", "noise_multiplier", "steps", "delta"))


@pytest.mark.parametrize("row", ROWS, ids=title)
def test_a_recorded_row(row):
    lower, upper = our_interval(row["rate"], row["noise_multiplier"], row["steps"], row["delta"])
    assert 0 <= lower <= upper < math.inf  # also where others fail
    assert bool(row["upper"]) == (row["kind"] in PRINTED)
    match row["kind"]:
        case "upper":  # no tool's valid bound is tighter
            assert upper <= rounded(row["upper"], +1)
        case "interval":
            assert rounded(row["lower"], -1) <= upper
            assert lower <= rounded(row["upper"], +1)
        case "below the truth":
            assert rounded(row["upper"], +1) < lower
        case "negative":
            assert float(row["upper"]) < 0
            assert (lower, upper) == (0, 0)
