"""Mechanisms: frozen parameters of what one step releases."""

from dpcalc.mechanisms.gaussian import Gaussian

MECHANISMS: dict[str, type[Gaussian]] = {"gaussian": Gaussian}
