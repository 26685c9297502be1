"""Sampling: nested units, how one step draws them, and what follows."""
