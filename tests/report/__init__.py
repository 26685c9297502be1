"""Tests of views and formats."""
