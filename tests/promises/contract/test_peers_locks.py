from raceproof.testing.contract.peers_locks import *
