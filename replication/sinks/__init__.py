"""Sends copies: to a peer, to a Kafka topic, or to a foreign server; takes what a peer sends."""
