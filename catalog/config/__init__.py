"""The settings of a node, and the files of its data directory that are made of them."""
