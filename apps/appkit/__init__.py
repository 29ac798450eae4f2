"""What the applications share: a database, loops that are watched, a web side, command lines, and storms.

It coordinates nothing: every decision about a row is the library's.
"""
