"""Fixed ledgers, so that golden texts do not depend on any numerics."""

import math
from dataclasses import replace
from types import SimpleNamespace

from dpcalc.gate.ledger import Account
from tests.report.samples import GUARANTEE, HOSTILE, PLAN

LOADED = SimpleNamespace(plan=PLAN, path="all.yaml", config_hash="0123")
RUNS = (
    ("first", "", 1000, replace(GUARANTEE, epsilon=0.5001)),
    ("second", "north", 1, replace(GUARANTEE, epsilon=0.7001)),
)
ACCOUNT = Account(loaded=LOADED, runs=RUNS, guarantee=GUARANTEE)
ABOVE = replace(ACCOUNT, guarantee=replace(GUARANTEE, epsilon=2.1))
OPEN_ENDED = replace(
    ACCOUNT,
    runs=((HOSTILE, "", 1000, replace(GUARANTEE, epsilon=math.inf)),),
    guarantee=replace(GUARANTEE, epsilon=math.inf, epsilon_lower=None),
)
