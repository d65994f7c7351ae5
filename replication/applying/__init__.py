"""Applies what was decided to the database: copies, evictions, renamed groups, addresses."""
