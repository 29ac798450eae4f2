"""`python -m imagebot`."""

from imagebot.cli import main

main()
