"""Mechanisms: frozen parameters of what one step releases; `kinds` lists them all."""

from dpcalc.mechanisms.gaussian import Gaussian

__all__ = ["Gaussian"]
