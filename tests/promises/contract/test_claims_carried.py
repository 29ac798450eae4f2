from raceproof.testing.contract.claims_carried import *
