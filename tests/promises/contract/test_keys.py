from raceproof.testing.contract.keys import *
