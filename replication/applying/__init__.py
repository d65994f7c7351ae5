"""Applies decisions to the database: copies, evictions, renamed groups, addresses."""
