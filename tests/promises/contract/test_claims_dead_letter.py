from raceproof.testing.contract.claims_dead_letter import *
