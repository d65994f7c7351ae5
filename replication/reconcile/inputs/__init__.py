"""The inputs of a comparison: where the rows of each catalog come from."""
