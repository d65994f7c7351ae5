"""The commands that talk to a node, one module per group; `catalog.cli` assembles the groups."""
