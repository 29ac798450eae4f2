"""The four applications, each with two instances, its simulators set to misbehave, and gentle traffic."""
