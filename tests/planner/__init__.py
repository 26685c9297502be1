"""Tests of the questions a plan is asked."""
