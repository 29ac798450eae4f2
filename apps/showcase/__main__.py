"""`python -m showcase`, the same as `showcase`."""

from showcase.cli import main

if __name__ == "__main__":
    main(prog_name="showcase")
