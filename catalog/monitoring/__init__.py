"""Tells how a node is: its metrics, and whether it is alive and ready."""
