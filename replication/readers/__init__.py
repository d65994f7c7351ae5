"""Readers of servers of other software, one for each API that a link can walk."""
