"""Results of a gate to draw: every verdict, every kind of finding, hostile names."""

from dataclasses import replace

from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import OutOfTimeError
from dpcalc.gate.verdict import BaseCost, Change, Fits, Limit, Problem, Result, Verdict, error_result
from tests.report.samples import GUARANTEE, HOSTILE, INFINITE

BUDGET = Limit(value=2.0, source="budget.epsilon")
TOO_MUCH = replace(GUARANTEE, epsilon=2.0134, epsilon_lower=2.0133)
UNKNOWN_KEY = Diagnostic(
    code="DPC101",
    severity=Severity.ERROR,
    message="unknown key `l2_norm_clip` in `mechanism`",
    hint="dpcalc calls this `max_grad_norm`",
    path="broken.yaml",
    line=9,
    column=3,
    width=12,
    source_line="  l2_norm_clip: 1.0",
)
ASSUMED = Diagnostic(code="DPC204", severity=Severity.NOTE, message="adjacency: add-remove is assumed", path="ok.yaml")
LARGE_DELTA = replace(ASSUMED, code="DPC203", severity=Severity.WARNING, message="delta is at least 1/units")
RESULTS = (
    Result(
        path="ok.yaml",
        verdict=Verdict.PASSED,
        guarantee=GUARANTEE,
        limit=BUDGET,
        diagnostics=(ASSUMED, LARGE_DELTA),
    ),
    Result(
        path="over.yaml",
        verdict=Verdict.FAILED,
        guarantee=TOO_MUCH,
        limit=BUDGET,
        problems=(Problem(code="DPC301", severity=Severity.ERROR, mark=(14, 19)),),
    ),
    Result(
        path="narrow.yaml",
        verdict=Verdict.FAILED,
        guarantee=replace(GUARANTEE, epsilon=2.00001),
        limit=replace(BUDGET, source="--max-epsilon"),
        problems=(Problem(code="DPC301", severity=Severity.ERROR),),
    ),
    Result(
        path="infinite.yaml",
        verdict=Verdict.FAILED,
        guarantee=INFINITE.guarantee,
        problems=(
            Problem(code="DPC205", severity=Severity.ERROR),
            Problem(code="DPC304", severity=Severity.WARNING),
        ),
    ),
    error_result("broken.yaml", ConfigError([UNKNOWN_KEY])),
    error_result("-", ZeroDivisionError("division by zero")),
    Result(
        path=f"{HOSTILE}.yaml",
        verdict=Verdict.PASSED,
        guarantee=replace(GUARANTEE, unit=HOSTILE),
        problems=(Problem(code="DPC304", severity=Severity.WARNING),),
    ),
)

STEPS = Change(key="training.steps", old="10_000", new="20_000", mark=(9, 12), alone=2.5)
RATE = Change(key="sampling.task", old=HOSTILE, new="", mark=None, alone=None)
SCHEME = Change(key="sampling.task.scheme", old="fixed", new="poisson", mark=(6, 3), alone=0.8)
RISEN = Result(
    path="conf/risen.yaml",
    verdict=Verdict.FAILED,
    guarantee=replace(GUARANTEE, epsilon=2.3004),
    limit=Limit(value=2.0, source="budget.epsilon of origin/main"),
    problems=(
        Problem(code="DPC301", severity=Severity.ERROR, mark=(9, 12)),
        Problem(
            code="DPC303",
            severity=Severity.ERROR,
            mark=(12, 10),
            detail="budget.epsilon",
            numbers={"before": 2.0, "now": 3.0},
        ),
        Problem(code="DPC404", severity=Severity.ERROR, mark=(11, 23), detail="less is promised: privacy.delta"),
        Problem(
            code="DPC405",
            severity=Severity.WARNING,
            mark=(6, 3),
            detail="sampling.task",
            numbers={"before": 0.946867, "now": 0.8},
        ),
        Problem(
            code="DPC402",
            severity=Severity.ERROR,
            mark=(9, 12),
            detail="budget.max_increase_pct",
            numbers={"before": 0.946867, "now": 2.3004, "allowed_pct": 10.0},
        ),
        Problem(
            code="DPC403",
            severity=Severity.ERROR,
            detail="the config is not in dpcalc.lock",
            numbers={"now": 2.3004},
        ),
    ),
    base=BaseCost(name="origin/main", guarantee=GUARANTEE, changes=(STEPS, SCHEME, RATE)),
    fits=Fits(noise_multiplier=1.23401, steps=4321),
)
FACTOR = replace(RISEN, path="phases.yaml", problems=RISEN.problems[:1], base=None, fits=Fits(noise_factor=1.1))
LATE = error_result("late.yaml", OutOfTimeError("no answer within the time allowed"))
NEAR = Result(
    path="near.yaml",
    verdict=Verdict.PASSED,
    guarantee=replace(GUARANTEE, epsilon=1.99),
    limit=BUDGET,
    problems=(
        Problem(code="DPC302", severity=Severity.WARNING, mark=(14, 19), numbers={"warn_at_pct": 90.0}),
        Problem(code="DPC406", severity=Severity.NOTE, detail="nothing to compare with: it is not in main"),
    ),
)
EVERYTHING = (*RESULTS, RISEN, FACTOR, LATE, NEAR)
