"""Attacks on a node that runs in a process of its own, while others go on using it."""
