"""`concord lint`: check documents without a node."""
