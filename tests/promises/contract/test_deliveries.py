from raceproof.testing.contract.deliveries import *
