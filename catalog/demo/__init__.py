"""Demos in seven steps, each with a federation on this machine."""
