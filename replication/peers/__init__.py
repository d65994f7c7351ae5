"""What a node knows and checks of another one, and shows it: identity, keys, pace, credentials."""
