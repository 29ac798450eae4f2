from raceproof.testing.contract.peers_state_machines import *
