from raceproof.testing.contract.claims_bounds import *
