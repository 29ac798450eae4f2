from raceproof.testing.contract.many import *
