"""Telegram and KIE on this machine: servers of their own that speak the real HTTP APIs, and misbehave when asked."""
