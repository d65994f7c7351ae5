"""The native HTTP API, xRegistry 1.0-rc4."""
