"""Tools for operators. The library works without any of them, and imports none."""
