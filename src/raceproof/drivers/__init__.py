"""`bind(connection)`, and one module for each kind of connection: how it runs one statement."""

from raceproof.drivers.bind import bind

__all__ = ["bind"]
