"""A law as a test: a few random problems by default, many in the slow suite."""

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings

FEW, MANY = 4, 40  # random plans a law


def law(*strategies, few=FEW, examples=()):
    """Makes a test of a check; a plan that breaks a law is named as it was found: to simplify it would take minutes.

    Args:
        strategies: what to draw, one an argument of the check.
        few: how many are drawn in the default suite.
        examples: problems of one argument that are tried every time.
    """

    def made(check):
        @pytest.mark.parametrize("most", [few, pytest.param(MANY, marks=pytest.mark.slow)])
        def test(most):
            for example in examples:
                check(example)
            found = settings(
                deadline=None,
                max_examples=most,
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            found(given(*strategies)(check))()

        return test

    return made
