"""`python -m devices`."""

from devices.cli import main

main()
