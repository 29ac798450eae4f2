"""`connect(url)`: stores for people without a connection of their own."""

from raceproof.connect.url import connect

__all__ = ["connect"]
