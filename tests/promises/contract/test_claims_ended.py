from raceproof.testing.contract.claims_ended import *
