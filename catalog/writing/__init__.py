"""The write path: a request is one interaction, planned and committed in one transaction."""
