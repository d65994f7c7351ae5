"""Rewrites of older names and shapes: a module for each kind of entity or attribute."""
