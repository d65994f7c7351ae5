"""Measurements of the claims about speed; run them with `make bench`."""
