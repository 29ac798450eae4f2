"""Diagnostics: what is wrong in a store, with its evidence and its repair."""
