"""Identity, keys, pace and credentials between a node and its peers."""
