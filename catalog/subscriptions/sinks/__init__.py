"""Sinks: one file per protocol sends events of subscriptions and tells what became of them."""
