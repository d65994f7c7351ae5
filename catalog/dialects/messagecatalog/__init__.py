"""The Message Catalog API: message groups, messages and their versions under its names."""
