"""Reconciliation on a local Spark."""
