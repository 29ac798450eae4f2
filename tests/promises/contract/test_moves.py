from raceproof.testing.contract.moves import *
