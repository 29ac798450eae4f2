from raceproof.testing.contract.leases import *
