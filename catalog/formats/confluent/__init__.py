"""Schemas as the Confluent Schema Registry API reads them."""
