"""Compares catalogs by the digests of their entities, and names every difference.

The comparison shares only the HTTP client with replication by links. `job.ReconcileJob` is the
entry point.
"""
