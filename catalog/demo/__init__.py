"""A demo in seven steps, with a federation of four nodes on this machine."""
