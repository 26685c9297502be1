"""Bounds of ten nested hierarchies, for docs/numbers.md: `python -m benchmarks.nested` prints them."""

import sys
from dataclasses import dataclass
from fractions import Fraction

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner import composition, lower_end
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import theorem_3_row
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Fixed, Poisson

DELTA = 1e-5


@dataclass(frozen=True)
class Case:
    """A training run by its levels: (name, count, drawn number, or rate as a text)."""

    levels: tuple[tuple[str, int, int | str], ...]
    unit: int
    clip: int
    sigma: float
    steps: int
    adjacency: str = "add-remove"

    @property
    def plan(self):
        levels = tuple(
            Level(
                name=name,
                count=count,
                scheme=Fixed(size=drawn) if isinstance(drawn, int) else Poisson(probability=Fraction(drawn)),
            )
            for name, count, drawn in self.levels
        )
        mechanism = Gaussian(noise_multiplier=self.sigma)
        phase = Phase(
            name="all", hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=self.clip, steps=self.steps
        )
        return Plan(phases=(phase,), unit=self.unit, adjacency=Adjacency(self.adjacency), delta=DELTA)

    @property
    def words(self):
        draws = (
            f"{f'{drawn} of ' if isinstance(drawn, int) else f'{drawn} x '}{count:,} {name}s"
            for name, count, drawn in self.levels
        )
        return ", ".join(draws)

    @property
    def protected(self):
        names = [name for name, _, _ in self.levels]
        return f"{names[self.unit - 1]}, per {names[self.clip - 1]}, {self.adjacency}"


TASKS, CLINICS = ("task", 200, 4), ("clinic", 10, 2)
CASES = (
    Case((("task", 200, "1/50"), ("example", 20, "1/4")), 2, 2, 6.0, 20_000),
    Case((TASKS, ("example", 20, "1/4")), 2, 2, 6.0, 20_000),
    Case((TASKS, ("example", 20, "1/4")), 2, 2, 6.0, 20_000, "replace-one"),
    Case((TASKS, ("example", 20, 5)), 2, 2, 6.0, 20_000),
    Case((("user", 1_000, "1/20"), ("example", 100, "1/10")), 2, 2, 4.0, 2_000),
    Case((("document", 10_000, "1/100"), ("sentence", 30, "1/10")), 2, 2, 2.0, 5_000, "zero-out"),
    Case((CLINICS, ("patient", 50, "1/10"), ("visit", 20, "1/5")), 3, 3, 8.0, 1_000),
    Case((("clinic", 10, "1/5"), ("patient", 50, 5), ("visit", 20, "1/5")), 3, 3, 8.0, 1_000),
    Case((("clinic", 10, "1/5"), ("patient", 50, "1/10"), ("visit", 20, "1/5")), 2, 3, 20.0, 1_000),
    Case((("speaker", 500, 10), ("session", 10, "1/5"), ("utterance", 40, "1/10")), 3, 2, 3.0, 4_000),
)


def row(case):
    """Cells of the table: words, upper and lower bound, what Theorem 3 says."""
    run = composition.composed(case.plan)
    main = guarantee(run)
    lower = lower_end.epsilon_lower(run, direction=main.direction)
    theorem_3 = theorem_3_row(case.plan)
    numbers = (main.epsilon, lower and lower[0], theorem_3 and theorem_3.epsilon)
    cells = ["" if number is None else f"{number:.4g}" for number in numbers]
    return [case.words, case.protected, f"{case.sigma:g}, {case.steps:,}", *cells]


def main():
    names = ["draws", "protected unit, clip, adjacency", "sigma, steps", "upper", "lower", "Theorem 3"]
    lines = [names, ["---"] * 6, *map(row, CASES)]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
