"""Checks documents with the write path of a node, on a catalog in memory."""
