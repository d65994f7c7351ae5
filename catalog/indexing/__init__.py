"""The words of entities, by which a search finds them. Pure."""
