"""Amplification by subsampling: from sampling and mechanism to the privacy loss of one step.

Work is metered: whatever calls `dpcalc.work.spend`, directly or below, may raise WorkExceededError where an allowance
is used up. A first line says so only where a caller must handle it; otherwise it passes through.
"""
