"""Programs that type checkers have to accept: the public API as its users write it."""
