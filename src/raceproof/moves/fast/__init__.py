"""Moves again, only faster; each file starts with the rule that keeps it equal to the plain way, and a test checks it."""
