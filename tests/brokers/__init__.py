"""Real brokers for tests: given by an environment variable, in a container, or a process."""
