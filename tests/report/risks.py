"""Fixed bounds on attackers."""

from dataclasses import replace

from dpcalc.planner.gdp import GaussianSummary
from dpcalc.planner.risk import Detection, Risk

SUMMARY = GaussianSummary(mu=0.5861035845951474, floor=1e-5, regret=0.0030211, misfit=0.006042458947417839)
NO_SUMMARY = replace(SUMMARY, mu=1.0300770797784877, regret=0.03701075735388082)

RISK = Risk(
    advantage=0.22450590555887992,
    detections=(
        Detection(
            false_positive_rate=0.001,
            present=0.0060507,
            absent=0.0057009,
            posterior=0.858169984970267,
            present_missed=0.9939493,
            absent_missed=0.9942991,
        ),
        Detection(
            false_positive_rate=0.1,
            present=0.2396226871,
            absent=0.2373204,
            posterior=0.7055555951009541,
            present_missed=0.7603773129,
            absent_missed=0.7626796,
        ),
    ),
    prior=0.5,
    belief=0.99999819,
    exception=1e-5,
    gdp=SUMMARY,
    reconstructions=((0.01, 0.04025412), (0.5, 0.7153391)),
)
