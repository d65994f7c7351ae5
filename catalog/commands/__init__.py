"""The commands that talk to a node, each group of them a module; `catalog.cli` assembles them."""
