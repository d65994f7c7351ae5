"""The description of a node as OpenAPI."""
