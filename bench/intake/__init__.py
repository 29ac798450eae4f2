"""Taking in webhooks over HTTP, requests a second: ours beside a bare handler and beside aiogram's own.

Each server is a process of its own with one event loop, started by the same few lines; the load is another process, with
the same connections and bodies for all. The servers take turns under load, and an idle one costs nothing. Every request
has an update of its own, so nothing can be answered from what was seen before, and every answer must be a 200.
The bare handler only reads the body: what it does a second is the most that aiohttp allows here.
"""
