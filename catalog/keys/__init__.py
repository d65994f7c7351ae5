"""Works with keys: signs and verifies entities, and encrypts the secrets that a node keeps."""
