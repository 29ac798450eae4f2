"""Figures: what is told in the README was printed by these."""
