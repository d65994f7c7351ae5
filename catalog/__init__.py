"""A catalog of endpoints, messages and schemas: its model, store, rules and published APIs."""
