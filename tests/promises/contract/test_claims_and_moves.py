from raceproof.testing.contract.claims_and_moves import *
