"""Watching the change streams of catalogs: what a comparison of all rows would find much later."""
