"""One process is enough to send the picture twice: it crashes in between."""

from sending_twice import show

show("sending_twice.py")
