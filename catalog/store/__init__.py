"""Everything that is kept in PostgreSQL, and the only place that talks to it."""
