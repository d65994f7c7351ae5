"""What can be done with a registry: each use case is one transaction."""
