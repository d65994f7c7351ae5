"""The CloudEvents Subscriptions API: handlers, routes and the content of answers."""
