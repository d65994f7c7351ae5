"""A link at work: what its source, its sink and its runner share."""
