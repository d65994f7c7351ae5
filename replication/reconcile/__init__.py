"""The proof that catalogs agree: reads the digests of all of them and names every difference.

It shares no code with the links that replicate. `job.run_reconcile` is the entry.
"""
