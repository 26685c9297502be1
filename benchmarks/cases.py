"""What is asked of every tool.

`exact` is the answer to ten digits where it is known without any of the tools: of `tests/oracles/inversion.py`, of
Balle and Wang 2018 (1805.06530), theorem 8, without sampling, and of the pair's own hockey-stick divergence for one
step. Where those do not reach, the error is taken from the middle of our certified interval.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "sample_configs"


@dataclass(frozen=True)
class Phase:
    """`steps` Poisson batches of single examples, add-remove."""

    rate: str  # exact
    sigma: float
    steps: int
    cap: int = 0  # units in the largest batch, 0 for no limit
    count: int = 0  # examples, for a cap

    @property
    def q(self):
        return float(Fraction(self.rate))

    def yaml(self, count):
        expected = Fraction(self.rate) * count
        sampling = "scheme: all" if self.q == 1 else f"scheme: poisson, expected: {expected}"
        sampling += f", max_batch_size: {self.cap}" if self.cap else ""
        return f"{{{sampling}}}", f"{{noise_multiplier: {self.sigma!r}}}", f"{{steps: {self.steps}}}"


@dataclass(frozen=True)
class Case:
    """One question: epsilon at delta, or with a target epsilon the smallest noise multiplier."""

    name: str
    phases: tuple[Phase, ...]  # empty if only dpcalc can express the run; for a search the noise is where it starts
    delta: float
    exact: float | None = None  # epsilon or noise multiplier, if known independently
    target: float | None = None
    text: str = ""  # config of a run that is no list of phases
    peers: bool = True  # whether the others are asked too

    @property
    def is_sweep(self):
        """Whether it is one of the cases that differ in their steps only."""
        return [(phase.rate, phase.sigma) for phase in self.phases] == [("1/1000", 1)] and not self.target

    @property
    def config(self):
        if self.text:
            return self.text
        count = self.phases[0].count or 1_000 * math.lcm(*(Fraction(each.rate).denominator for each in self.phases))
        lines = ["version: 1", f"data: {{examples: {count}}}", "mechanism: {max_grad_norm: 1.0}", "phases:"]
        for number, phase in enumerate(self.phases):
            sampling, mechanism, training = phase.yaml(count)
            lines += [f"  - name: phase-{number}", f"    sampling: {sampling}"]
            lines += [f"    mechanism: {mechanism}", f"    training: {training}"]
        return "\n".join([*lines, f"privacy: {{adjacency: add-remove, delta: {self.delta!r}}}", ""])


def _flat(rate, sigma, steps, delta, exact=None):
    name = f"q={rate} sigma={sigma:g} T={steps:,} delta={delta:g}"
    return Case(name=name, phases=(Phase(rate, float(sigma), steps),), delta=delta, exact=exact)


GOLDEN = [
    _flat("1/100", 4, 10_000, 1e-5, 0.9468668008),
    _flat("256/60000", 1.1, 14_063, 1e-5, 2.381689726),
    _flat("16384/1281167", 2.5, 7_020, 8e-7, 2.033492550),
    _flat("1/5", 10, 1_000, 1e-6, 2.944542992),
    _flat("1/1000", 0.5, 5_000, 1e-6, 5.435249157),
    _flat("1/100000", 0.8, 1_000_000, 1e-8, 0.0897402),
    _flat("1", 20, 100, 1e-5, 1.993091404),
]
EDGES = [
    _flat("1/100", 1, 1_000, 1e-5, 1.828236667),
    _flat("1", 1_000, 1_000_000, 1e-10, 6.547924067),
    _flat("1/1000000", 0.6, 1_000_000, 1e-6),
    _flat("1/1000", 1, 10_000_000, 1e-6, 27.63665749),
    _flat("1/10000", 1, 100_000_000, 1e-6, 6.671930940),
    _flat("1/100", 0.3, 1_000, 1e-5),
    _flat("1/100", 0.1, 1_000, 1e-5),
    _flat("1/100", 0.05, 1_000, 1e-5),
    _flat("1/100", 4, 10_000, 1e-10, 1.528218477),
    _flat("1/100", 4, 10_000, 1e-15, 1.956053483),
    _flat("1/100", 4, 10_000, 1e-20, 2.310796989),
    _flat("1/100", 4, 10_000, 1e-30, 2.899467669),
    _flat("1/100", 1_000, 1_000, 1e-5, 0.0004637766412),
    _flat("1/100", 1, 1, 1e-5, 0.1994504478),
]
MANY_PHASES = Case(
    name="200 phases",
    phases=tuple(Phase("1/100", 1 + i / 100, 50) for i in range(200)),
    delta=1e-5,
    exact=2.805876326,
)
THREE_LEVELS = """\
version: 1
data:
  levels:
    - {name: hospital, count: 40}
    - {name: patient, count: 500}
    - {name: scan, count: 12}
sampling:
  hospital: {scheme: fixed, size: 8}
  patient: {scheme: poisson, rate: 0.1}
  scan: {scheme: fixed, size: 2}
mechanism: {noise_multiplier: 8.0, max_grad_norm: 1.0, clip: patient}
training: {steps: 5_000}
privacy: {unit: patient, adjacency: add-remove, delta: 1e-6}
"""
THREE = Case(name="3 levels, clipped per patient", phases=(), delta=1e-6, text=THREE_LEVELS, peers=False)
CAPPED = Case(
    name="Poisson batches cut to a maximum",
    phases=(Phase("1/100", 1.0, 1_000, cap=450, count=40_000),),
    delta=1e-5,
)
NESTED = """\
version: 1
data: {levels: [{name: task, count: 200}, {name: example, count: 20}]}
sampling: {task: {scheme: poisson, rate: 1/50}, example: {scheme: poisson, rate: 1/4}}
mechanism: {noise_multiplier: 6.0, max_grad_norm: 1.0, clip: example}
training: {steps: 20_000}
privacy: {unit: example, adjacency: add-remove, delta: 1e-5}
"""
ALLOCATION = """\
version: 1
data: {examples: 10_000}
sampling: {scheme: random-allocation, times: 2}
mechanism: {noise_multiplier: 1.0, max_grad_norm: 1.0}
training: {steps: 100}
privacy: {adjacency: add-remove, delta: 1e-5}
"""
BANDED = """\
version: 1
data: {examples: 50_000}
sampling: {scheme: cyclic-poisson, groups: 8, expected: 500}
mechanism: {type: matrix-factorization, strategy: {banded: {bands: 8}}, noise_multiplier: 1.0, max_grad_norm: 1.0}
training: {epochs: 20}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


def _sample(name):
    return (SAMPLES / name).read_text(encoding="utf-8")


OURS_ONLY = [
    Case(name=name, phases=(), delta=1e-5, text=text, peers=False)
    for name, text in {
        "balls in bins": _sample("mnist_bins.yaml"),
        "random allocation": ALLOCATION,
        "nested draws, averaged": NESTED,
        "banded noise, cyclic Poisson": BANDED,
        "one tree over 1,600 rounds": _sample("stack_overflow_ftrl.yaml"),
    }.items()
]
SWEEP = [  # with a case above: the same but for the number of steps
    replace(_flat("1/1000", 1, steps, 1e-6, exact), peers=False)
    for steps, exact in (
        (10_000, 0.5551396679),
        (100_000, 1.861047459),
        (1_000_000, 6.694272660),
        (100_000_000, 147.1698861),  # T = 10,000,000 is above
    )
]


def _search(rate, steps, delta, target, exact=None):
    name = f"sigma for epsilon={target:g} q={rate} T={steps:,} delta={delta:g}"
    phases = (Phase(rate, 1.0, steps),)
    return Case(name=name, phases=phases, delta=delta, exact=exact, target=target)


SEARCHES = [
    _search("1/25", 2_000, 1e-5, 8, 1.289967807),
    _search("1/25", 2_250, 1e-5, 8, 1.345898329),
    _search("256/60000", 14_063, 1e-5, 2, 1.224175550),
    _search("16384/1281167", 7_020, 8e-7, 2, 2.535028600),
    _search("1/100", 10_000, 1e-5, 1, 3.812816831),
    _search("1/1000", 100_000, 1e-6, 1),
    _search("1/1000", 5_000, 1e-6, 8, 0.4497712364),
    _search("1/5", 1_000, 1e-6, 3, 9.834795471),
    _search("1", 100, 1e-5, 2, 19.93812446),
]
CASES = [*GOLDEN, *EDGES, MANY_PHASES, THREE, CAPPED, *OURS_ONLY, *SWEEP, *SEARCHES]
BY_NAME = {case.name: case for case in CASES}
