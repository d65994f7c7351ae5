"""Tools for agents by the Model Context Protocol: on a terminal, and at a node."""
