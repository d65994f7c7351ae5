"""The CloudEvents Subscriptions API: handlers, routes, and what answers show."""
