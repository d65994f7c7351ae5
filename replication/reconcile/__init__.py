"""Compares catalogs by the digests of all their entities, and names every difference.

With the links that replicate it shares only the HTTP client. `job.run_reconcile` is the entry.
"""
