"""A federation of four nodes on this machine that shows, in seven steps, what Concord does."""
