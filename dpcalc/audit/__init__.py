"""Audit of a sampler: logged batches against the sampling that a config declares (`dpcalc audit-sampler`)."""
