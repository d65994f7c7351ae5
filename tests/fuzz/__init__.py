"""Fuzzing: `make fuzz` sends a hundred thousand requests to a node, and random bytes to parsers."""
