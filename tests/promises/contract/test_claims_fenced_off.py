from raceproof.testing.contract.claims_fenced_off import *
