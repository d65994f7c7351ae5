"""Decides what becomes of incoming copies, by authority and epoch. No I/O."""
