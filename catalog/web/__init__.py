"""The front door of a node: each request is admitted, handled, and its answer finished."""
