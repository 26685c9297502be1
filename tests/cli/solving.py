"""Small runs to solve for, and how to read the answers."""

FLAT = """\
version: 1
name: clinic                              # a comment
data: {examples: 1_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {noise_multiplier: 1.1}        # of the clip norm
training: {steps: 500}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1.5}
"""
PHASES = """\
version: 1
data: {examples: 1_000}
sampling: {scheme: poisson, rate: 0.01}
phases:
  - {name: warm-up, training: {steps: 100}, mechanism: {noise_multiplier: 1.3}}
  - {name: main, training: {steps: 300}, mechanism: {noise_multiplier: 1.0}}
privacy: {adjacency: add-remove, delta: 1e-5}
"""
FLAGS = ("--no-config", "--delta", "1e-5", "--adjacency", "add-remove")
SOLVERS = ("solve-sigma", "solve-steps", "solve-rate")
NO_SOLUTION = FLAT.replace("{scheme: poisson, rate: 0.01}", "{scheme: fixed, size: 10}").replace("1.1", "0.7")


def facts(ended):
    return dict(line.split(": ", 1) for line in ended.out.splitlines())


def bare(ended):
    """The one number of an answer."""
    assert (ended.code, ended.err) == (0, "")
    return float(ended.out)


def number(ended):
    """The one number of an answer that may come with remarks."""
    assert ended.code == 0
    return float(ended.out)
