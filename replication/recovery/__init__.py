"""Recovers the lost entities of this authority from replicas, and repairs copies."""
