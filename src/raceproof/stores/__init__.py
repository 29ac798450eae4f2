"""Drivers: how statements run on the connections that people have. `bind` and `connect` are the ways in."""
