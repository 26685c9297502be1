"""Hypothesis profiles: the default suite tries the same examples every time, the slow suite new ones."""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, print_blob=True)
settings.register_profile("random", print_blob=True)


def pytest_configure(config):
    """Choose the profile: HYPOTHESIS_PROFILE, else `random` for `pytest -m slow`, else `fixed`."""
    slow = config.getoption("markexpr") == "slow"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("random" if slow else "fixed"))
