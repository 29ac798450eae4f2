"""Measurements: they printed the figures in the README."""
