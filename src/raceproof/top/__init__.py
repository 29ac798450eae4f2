"""The terminal view of lifecycles, claims, races, leader, inbox and what is stuck."""
