"""Fixed statements, so that golden texts do not depend on any numerics."""

import math
from dataclasses import replace
from types import SimpleNamespace

from dpcalc.planner.risk import AttackBounds
from dpcalc.planner.statement import Statement
from tests.report.risks import NO_SUMMARY, SUMMARY
from tests.report.samples import EVALUATION, GUARANTEE, HOSTILE, INFINITE, PHASE, PLAN, TWO_PHASES

STATEMENT = Statement(
    evaluation=TWO_PHASES,
    unsampled=696.7838,
    groups=((2, 2.18446), (5, math.inf), (10, None)),
    attack=AttackBounds(advantage=0.101624, detection=((0.001, 0.00229315), (0.1, 0.152421))),
    gdp=SUMMARY,
)
NOTHING = replace(STATEMENT, evaluation=INFINITE, unsampled=math.inf, gdp=replace(NO_SUMMARY, mu=math.inf))
HOSTILE_STATEMENT = replace(
    STATEMENT,
    evaluation=replace(
        EVALUATION,
        guarantee=replace(GUARANTEE, unit=HOSTILE),
        phases=(replace(PHASE, name=HOSTILE, sampling=HOSTILE), PHASE),
        assumptions=(HOSTILE,),
    ),
)


def loaded(plan=PLAN, *, path="clinic.yaml", section=""):
    return SimpleNamespace(plan=plan, path=path, section=section, config_hash="0123abcd" * 8, diagnostics=())


HOSTILE_LOADED = loaded(replace(PLAN, name=HOSTILE), path=f"{HOSTILE}.yaml", section=HOSTILE)
