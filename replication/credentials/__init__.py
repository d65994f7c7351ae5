"""Credentials of links: how they are given, and how they are shown to peers."""
