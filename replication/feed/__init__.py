"""The feed of this node's changes, which others pull, and its digests."""
