"""Bounds and shares the work that clients bring: rates, shares, bytes, and turns of long work."""
