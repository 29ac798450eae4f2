"""Commands to MQTT nodes: each is sent at most once outside of cases that are shown as uncertain, and none is forgotten."""
