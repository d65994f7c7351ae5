"""Signs what this authority publishes, and verifies the signatures of copies."""
