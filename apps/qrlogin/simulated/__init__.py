"""A Telegram without a network: Telethon's own login code, over a line that carries its requests as they are (TL)."""

from qrlogin.simulated.client import Line, SimulatedClient, simulated_clients
from qrlogin.simulated.phone import Phone, ScanRefused
from qrlogin.simulated.server import SimulatedTelegram

__all__ = ["Line", "Phone", "ScanRefused", "SimulatedClient", "SimulatedTelegram", "simulated_clients"]
