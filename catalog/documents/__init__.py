"""Documents of every published edition: their migration to the newest, and the way back."""
