"""Documents of every published edition: which one a document is of, and its newest form."""
