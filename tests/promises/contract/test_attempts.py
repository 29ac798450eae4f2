from raceproof.testing.contract.attempts import *
