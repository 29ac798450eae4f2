from raceproof.testing.contract.guards_first import *
