"""`validate`: one result for each file, whatever is wrong with the others."""

from types import SimpleNamespace

from dpcalc.config.overrides import Overrides
from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.gate import diff as reader
from dpcalc.gate.check import validate
from dpcalc.gate.diff import ConfigReader
from dpcalc.gate.verdict import Verdict


def test_every_file_has_its_result(monkeypatch):
    note = Diagnostic(code="DPC204", severity=Severity.NOTE, message="assumed", path="good.yaml")
    wrong = Diagnostic(code="DPC103", severity=Severity.ERROR, message="missing", path="bad.yaml")
    asked = []

    def load(path, *, key, overrides):
        asked.append((key, overrides))
        if path == "bad.yaml":
            raise ConfigError([wrong])
        if path == "odd.yaml":
            raise RecursionError("too deep")
        found = SimpleNamespace(path=path, diagnostics=(note,))
        found.accepted = lambda: found
        return found

    monkeypatch.setattr(reader, "load", load)
    changed = Overrides(assignments=("a=1",), unset=("b",))
    results = validate(["bad.yaml", "odd.yaml", "good.yaml"], reader=ConfigReader(key="k", overrides=changed))
    assert [one.verdict for one in results] == [Verdict.INVALID, Verdict.UNDECIDED, Verdict.PASSED]
    assert [one.diagnostics for one in results] == [(wrong,), (), (note,)]
    assert asked == [("k", changed)] * 3
