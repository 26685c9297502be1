"""Accountants by themselves."""
