"""Node processes and real sockets."""
