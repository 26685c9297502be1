"""Questions about files that have a yes or no for an answer: above config, below report."""
