"""Beside other accountants: accuracy, time and memory. Scripts, not tests."""
