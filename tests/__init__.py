"""Proofs of what Concord promises."""
