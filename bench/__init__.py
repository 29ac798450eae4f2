"""How fast a move is, beside the raw driver doing the same and beside what people use today: `python -m bench`.

Every comparison runs ours and its reference in turn, in one process, on real servers that it starts itself, and gives
the ratio with its spread. Nothing here fails because something is slow: figures are for reading, tests are elsewhere.
"""
