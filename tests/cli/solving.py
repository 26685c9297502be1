"""Small runs, and how to read answers."""

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


def facts(ended):
    return dict(line.split(": ", 1) for line in ended.out.splitlines())
