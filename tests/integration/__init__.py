"""Code and a real PostgreSQL."""
