"""The command `discover`: definitions proposed from what a Kafka cluster and its registry have."""
