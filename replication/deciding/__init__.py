"""Decides about incoming copies by authority and epoch. No I/O."""
