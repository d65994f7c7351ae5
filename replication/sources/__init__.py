"""Reads copies from the feed of a peer, from a Kafka topic, or by a walk of a foreign server."""
