"""What a node tells of itself: its log, its traces, and the metrics of a process."""
