"""Signs the entities of this authority, and verifies the signatures of copies."""
