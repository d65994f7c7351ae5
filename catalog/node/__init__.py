"""Runs a node in a single process or in several processes."""
