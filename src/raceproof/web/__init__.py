"""The dashboard: a server-rendered ASGI application over the lifecycles and the store of any application."""
