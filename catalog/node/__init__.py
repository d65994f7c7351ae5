"""Runs a node: in one process or in several."""
