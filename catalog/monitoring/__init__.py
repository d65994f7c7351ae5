"""The health of a node: metrics, liveness and readiness."""
