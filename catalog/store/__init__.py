"""The data of a node in PostgreSQL. No other package sends SQL."""
