"""Sinks: each protocol module sends the events of subscriptions and reports the answers."""
