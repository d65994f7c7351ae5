"""Uses keys: signs and verifies entities, and encrypts the stored secrets of a node."""
