"""Hands a group over from one authority to another."""
