"""Sends copies to a peer, a Kafka topic or a foreign server, and takes pushed copies."""
