"""What the pages read, on any of the stores. Promise: every statement is bounded, whatever the size of the tables."""
