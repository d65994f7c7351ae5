"""The Confluent API, used by the clients that its users have, and by a real Kafka."""
