"""What a node knows and checks of another one: who it is, its keys, its pace, its faults."""
