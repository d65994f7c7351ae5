"""The entry of requests into a node: a request is admitted and handled, its answer finished."""
