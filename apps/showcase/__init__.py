"""The whole thing on one machine: four applications, the usual code beside raceproof's, and buttons that cause trouble.

In the order to read: `twins` (the same events for the usual code and for raceproof's), `applications` (the four, with their
simulators), `trouble` (what the buttons do), `running` (all of it together), `page` (what is seen), `asserting` (the
same without anybody watching).
"""
