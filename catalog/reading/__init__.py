"""The read path: what clients ask for, found and loaded in few queries."""
