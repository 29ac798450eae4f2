from raceproof.testing.contract.inbox import *
