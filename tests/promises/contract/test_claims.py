from raceproof.testing.contract.claims import *
