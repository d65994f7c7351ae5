"""The write path: one request is one interaction, planned and committed in one transaction."""
