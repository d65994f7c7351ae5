"""Tells who did what, and which attempts were refused: the trail, its log, its retention."""
