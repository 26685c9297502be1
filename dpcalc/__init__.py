"""Privacy accounting for nested sampling: the public interface."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from dpcalc._version import __version__

_MODULES = {
    "Accountant": "training",
    "compare": "api",
    "curve": "api",
    "delta": "api",
    "epsilon": "api",
    "from_dp_accounting": "plans",
    "from_jax_privacy": "plans",
    "from_opacus": "plans",
    "load": "plans",
    "plan": "plans",
    "risk": "api",
    "solve": "api",
}
__all__ = [
    "Accountant",
    "__version__",
    "compare",
    "curve",
    "delta",
    "epsilon",
    "from_dp_accounting",
    "from_jax_privacy",
    "from_opacus",
    "load",
    "plan",
    "risk",
    "solve",
]

if TYPE_CHECKING:
    from dpcalc.api import compare, curve, delta, epsilon, risk, solve
    from dpcalc.plans import from_dp_accounting, from_jax_privacy, from_opacus, load, plan
    from dpcalc.training import Accountant
else:

    def __getattr__(name: str) -> object:
        """Return a name of `__all__`, imported on first use: the command line can do without NumPy."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        value = getattr(import_module(f"dpcalc.{_MODULES[name]}"), name)
        return value if isinstance(value, type) else import_module("dpcalc.plans").with_hints(value)

    def __dir__() -> list[str]:
        """Return what is exported."""
        return sorted(__all__)
