"""Replication: catalogs copy entities from each other, by authority and epoch."""
