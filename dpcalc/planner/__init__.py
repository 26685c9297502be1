"""The questions users ask of a plan.

Work is metered: whatever calls `dpcalc.work.spend`, directly or below, may raise WorkExceededError (a ConvergenceError)
where an allowance is used up. A first line says so only where a caller must handle it; otherwise it passes through.
"""
