"""The feed of the node's changes for followers, and digests."""
