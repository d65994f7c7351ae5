"""Changes of the configuration: a new model or new capabilities, and the consequences."""
