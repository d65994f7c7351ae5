"""What a catalog is made of and the rules that hold for it, without any input or output."""
