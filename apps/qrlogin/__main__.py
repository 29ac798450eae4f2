"""`python -m qrlogin`."""

from qrlogin.cli import main

main()
