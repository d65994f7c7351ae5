"""The read path: finds and loads the entities that clients ask for, in few queries."""
