"""Results of a gate to draw: every verdict, every kind of finding, hostile names."""

from dataclasses import replace

from dpcalc.config.difference import Difference
from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import OutOfTimeError
from dpcalc.gate.verdict import BaseCost, Limit, Result, Verdict, error_result, finding
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
ERROR, WARNING = Severity.ERROR, Severity.WARNING
CLAIM = "(unit example, delta 1e-05)"
NO_BUDGET = "no budget.epsilon: nothing says what this run may cost"
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
        problems=(finding("DPC301", ERROR, f"epsilon 2.02 exceeds the budget 2.0 {CLAIM}", "over.yaml", (14, 19)),),
    ),
    Result(
        path="narrow.yaml",
        verdict=Verdict.FAILED,
        guarantee=replace(GUARANTEE, epsilon=2.00001),
        limit=replace(BUDGET, source="--max-epsilon"),
        problems=(finding("DPC301", ERROR, f"epsilon 2.00001 exceeds --max-epsilon 2.0 {CLAIM}", "narrow.yaml"),),
    ),
    Result(
        path="infinite.yaml",
        verdict=Verdict.FAILED,
        guarantee=INFINITE.guarantee,
        problems=(
            finding("DPC205", ERROR, f"there is no finite epsilon {CLAIM}", "infinite.yaml"),
            finding("DPC304", WARNING, NO_BUDGET, "infinite.yaml"),
        ),
    ),
    error_result("broken.yaml", ConfigError([UNKNOWN_KEY])),
    error_result("-", ZeroDivisionError("division by zero")),
    Result(
        path=f"{HOSTILE}.yaml",
        verdict=Verdict.PASSED,
        guarantee=replace(GUARANTEE, unit=HOSTILE),
        problems=(finding("DPC304", WARNING, NO_BUDGET, f"{HOSTILE}.yaml"),),
    ),
)

PATH = "conf/risen.yaml"


def changed(key, old, new, mark, path=PATH):
    return Difference(key=key, old=old, new=new, mark=mark, path=path, keys=(key,), node=None)


STEPS = changed("training.steps", "10_000", "20_000", (9, 12)), 2.5
RATE = changed("sampling.task", HOSTILE, "", None), None
SCHEME = changed("sampling.task.scheme", "fixed", "poisson", (6, 3)), 0.8
OVER = finding(
    "DPC301",
    ERROR,
    f"epsilon 2.31 exceeds budget.epsilon of origin/main 2.0 {CLAIM}",
    PATH,
    (9, 12),
    "to fit: noise_multiplier >= 1.235 or steps <= 4321",
)
CHEAPER = "sampling.task alone lowers epsilon, 0.947 -> 0.800; make sure that the training code changed with it"
RISE = "epsilon rises by 143%, 0.947 -> 2.31; budget.max_increase_pct allows 10.0 (training.steps: 10_000 -> 20_000)"
RISEN = Result(
    path=PATH,
    verdict=Verdict.FAILED,
    guarantee=replace(GUARANTEE, epsilon=2.3004),
    limit=Limit(value=2.0, source="budget.epsilon of origin/main"),
    problems=(
        OVER,
        finding("DPC303", ERROR, "budget.epsilon was 2.0 and is now 3.0", PATH, (12, 10)),
        finding("DPC404", ERROR, "less is promised: privacy.delta", PATH, (11, 23)),
        finding("DPC405", WARNING, CHEAPER, PATH, (6, 3)),
        finding("DPC402", ERROR, RISE, PATH, (9, 12)),
        finding("DPC403", ERROR, "the config is not in dpcalc.lock; epsilon is 2.31", PATH),
    ),
    base=BaseCost(name="origin/main", guarantee=GUARANTEE, changes=(STEPS, SCHEME, RATE)),
    fits={"noise_multiplier": 1.23401, "steps": 4321},
)
FACTOR = replace(
    RISEN,
    path="phases.yaml",
    problems=(replace(OVER, path="phases.yaml", hint="to fit: noise_multiplier of every phase times 1.100"),),
    base=None,
    fits={"noise_factor": 1.1},
)
LATE = error_result("late.yaml", OutOfTimeError("no answer within the time allowed"))
USED = "99.5% of budget.epsilon 2.0 is used; a warning was asked for above 90%"
NEAR = Result(
    path="near.yaml",
    verdict=Verdict.PASSED,
    guarantee=replace(GUARANTEE, epsilon=1.99),
    limit=BUDGET,
    problems=(
        finding("DPC302", WARNING, USED, "near.yaml", (14, 19)),
        finding("DPC406", Severity.NOTE, "nothing to compare with: it is not in main", "near.yaml"),
    ),
)


def moved(result, path):
    """The result of a file of another name."""
    return replace(result, path=path, problems=tuple(replace(each, path=path) for each in result.problems))


EVERYTHING = (*RESULTS, RISEN, FACTOR, LATE, NEAR)
