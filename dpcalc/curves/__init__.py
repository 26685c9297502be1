"""Curves: representations of one step's privacy loss, and conversions between them."""
