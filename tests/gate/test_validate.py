from types import SimpleNamespace

from dpcalc.config.diagnostics import ConfigError, Diagnostic, Severity
from dpcalc.gate import validate as gate
from dpcalc.gate.verdict import Verdict


def test_every_file_has_its_result(monkeypatch):
    note = Diagnostic(code="DPC204", severity=Severity.NOTE, message="assumed", path="good.yaml")
    wrong = Diagnostic(code="DPC103", severity=Severity.ERROR, message="missing", path="bad.yaml")
    asked = []

    def load(path, *, key, assignments):
        asked.append((key, assignments))
        if path == "bad.yaml":
            raise ConfigError([wrong])
        if path == "odd.yaml":
            raise RecursionError("too deep")
        return SimpleNamespace(path=path, diagnostics=(note,))

    monkeypatch.setattr(gate, "load", load)
    results = gate.validate(["bad.yaml", "odd.yaml", "good.yaml"], key="k", assignments=["a=1"])
    assert [one.verdict for one in results] == [Verdict.INVALID, Verdict.UNDECIDED, Verdict.PASSED]
    assert [one.diagnostics for one in results] == [(wrong,), (), (note,)]
    assert asked == [("k", ["a=1"])] * 3
