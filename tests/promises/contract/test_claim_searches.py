from raceproof.testing.contract.claim_searches import *
