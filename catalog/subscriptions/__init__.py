"""The CloudEvents Subscriptions API: bodies, handlers and routes."""
