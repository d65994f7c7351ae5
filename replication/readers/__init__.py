"""The readers of servers of any make, each by one of the APIs that a link can walk."""
