"""The Confluent Schema Registry API: subjects and contexts are schemas and schema groups."""
