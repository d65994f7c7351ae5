"""Changes as CloudEvents, and their delivery to subscribers."""
