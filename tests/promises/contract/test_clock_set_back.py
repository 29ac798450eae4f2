from raceproof.testing.contract.clock_set_back import *
