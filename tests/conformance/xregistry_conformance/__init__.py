"""Conformance cases for servers of xRegistry 1.0-rc4, as a plugin of pytest and as a command."""
