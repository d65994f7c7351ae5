"""The entities of a catalog and the rules that hold for them, without input or output."""
