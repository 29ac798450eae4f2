"""`python -m raceproof.ops.demo`, the same as `raceproof demo`."""

from raceproof.ops.demo.command import demo

if __name__ == "__main__":
    demo(prog_name="raceproof demo")
