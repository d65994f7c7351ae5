"""Documents of every published edition: the migration to the newest edition, and the way back."""
