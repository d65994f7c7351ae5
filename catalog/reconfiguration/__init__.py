"""Changes of the configuration (model and capabilities), and the configuration of a fresh node."""
