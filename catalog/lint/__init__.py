"""Checks documents by running the write path of a node on a catalog in memory."""
