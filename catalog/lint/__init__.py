"""Documents held to the rules of a catalog without any node: the engine's own, on no database."""
