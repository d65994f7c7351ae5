"""The command `mcp`: a catalog as tools for agents, by the Model Context Protocol."""
