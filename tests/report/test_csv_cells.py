"""Cells of CSV output: words of a user never begin a formula, numbers stay numbers."""

import csv
import io

import pytest

from dpcalc.charts.chart import cell
from dpcalc.sweep.points import Outcome, parse_axis
from dpcalc.sweep.view import sweep_csv


@pytest.mark.parametrize(
    "text", ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "=", "@", "-", "+", "\t=1", "\r=1", "-x", "+1\r"]
)
def test_a_formula_becomes_text(text):
    assert cell(text).startswith("'")
    assert cell(text).isprintable()


@pytest.mark.parametrize("text", ["1", "-1", "+1e-5", "-inf", "1=1", "a@b", "", "0.5", "configs/a.yaml", "-1_0"])
def test_everything_else_stays(text):
    assert cell(text) == text


def test_words_of_a_sweep():
    axis = parse_axis("name==1+1,@SUM(A1),plain,-3")
    outcomes = [Outcome(values=(value,), epsilon=1.0, kind="upper", method="pld", error="=x") for value in axis.values]
    rows = list(csv.reader(io.StringIO(sweep_csv([axis], outcomes))))
    assert [row[0] for row in rows] == ["name", "'=1+1", "'@SUM(A1)", "plain", "-3"]
    assert {row[-1] for row in rows[1:]} == {"'=x"}
