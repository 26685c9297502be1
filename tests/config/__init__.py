"""Tests of the config layer."""
