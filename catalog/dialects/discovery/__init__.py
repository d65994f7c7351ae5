"""The Discovery API: services, which are the endpoints that offer subscriptions."""
