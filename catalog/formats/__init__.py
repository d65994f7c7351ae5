"""Checks of documents against their formats, and comparisons of the versions of a document."""
