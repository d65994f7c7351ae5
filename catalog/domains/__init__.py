"""The default model, one modelsource document for each domain."""
