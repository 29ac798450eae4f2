from raceproof.testing.contract.peers_queues import *
