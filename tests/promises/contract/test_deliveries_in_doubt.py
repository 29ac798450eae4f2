from raceproof.testing.contract.deliveries_in_doubt import *
