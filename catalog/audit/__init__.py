"""The audit of writes and refused requests: collection, log and retention."""
