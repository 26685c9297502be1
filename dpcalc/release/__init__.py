"""Releases: from sampling and mechanism to the loss curves of one step, and the tree they form."""
