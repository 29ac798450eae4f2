"""The commands, one in a file, named like what is typed."""
