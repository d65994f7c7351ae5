"""The default model, a modelsource document for each domain."""
