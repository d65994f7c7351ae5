"""The words and references of entities, by which they are found. Pure."""
