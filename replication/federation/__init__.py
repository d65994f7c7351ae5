"""The federation as one node knows it: what peers tell of themselves, and how fresh copies are."""
