"""Results that tests share: the same question about the same plan is answered once a process, not once a command."""

import functools
import importlib

from dpcalc.work import cached_with_cost


def _shared(function):
    """Return a function of counts and more that computes each result once, and charges its work as if it had again."""
    known = cached_with_cost(max_entries=64)(lambda items, *more, **named: function(dict(items), *more, **named))

    def call(counts, *more, **named):
        return known(tuple(counts.items()), *more, **named)

    call.cache_clear = known.cache_clear  # tests that patch what is computed with begin with empty caches
    return call


SHARED = []
for place, name, share in [
    ("accountants.pld", "grid_epsilon_bounds", _shared),
    ("accountants.rdp", "_best_order", _shared),
    *((f"planner.{name}", name, functools.lru_cache(64)) for name in ("evaluate", "compare", "statement", "risk")),
]:
    module = importlib.import_module(f"dpcalc.{place}")
    SHARED.append((module, name, share(getattr(module, name))))


def install(put):
    """Let the accountants, and what is asked of whole plans, share results; `put` is `monkeypatch.setattr`."""
    for module, name, function in SHARED:
        put(module, name, function)
