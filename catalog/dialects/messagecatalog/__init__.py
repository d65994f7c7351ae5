"""The Message Catalog API: message groups, messages and versions under the API's names."""
