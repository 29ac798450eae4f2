"""Tools for operators. The library works without them, and imports none."""
