"""`python -m outreach`."""

from outreach.cli import main

main()
