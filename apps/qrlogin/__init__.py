"""Telegram login by QR code: one attempt for a user at a time, and each login that ends well is saved exactly once."""
