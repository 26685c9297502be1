"""Answers go to standard output, remarks beside it; a stream that is gone is an error with a name."""

import os
import sys

import pytest

from dpcalc.cli.app import run
from dpcalc.cli.output import CommandResult, print_remark, print_result
from dpcalc.errors import OutputError


@pytest.fixture
def broken():
    """A stream whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        yield stream


def test_text_and_asides(capsys):
    print_result(CommandResult(text="one\n", asides=("two", "three")))
    assert capsys.readouterr() == ("one\n", "two\nthree\n")


def test_a_broken_stream_breaks_once(monkeypatch, broken):
    monkeypatch.setattr(sys, "stdout", broken)
    with pytest.raises(BrokenPipeError):
        print_result(CommandResult(text="one\n"))
    broken.write("more")
    broken.flush()


def test_a_remark_is_no_reason_to_fail(monkeypatch, broken):
    monkeypatch.setattr(sys, "stderr", broken)
    print_remark("one")
    print_remark("two")
    monkeypatch.setattr(sys, "stderr", None)
    print_remark("three")


def test_nowhere_to_answer(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="closed"):
        print_result(CommandResult(text="one\n"))
    print_result(CommandResult(text=""))


def test_the_exit_code_of_a_broken_stream(monkeypatch, broken):
    monkeypatch.setattr(sys, "stdout", broken)
    assert run(["--version"]) == 141
