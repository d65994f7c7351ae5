"""The files that deploy a node, each given to the tool that reads it."""
