"""Checks whether a message conforms to a message definition."""
