"""The rows of subscriptions, their progress, their dead letters and what sinks have granted."""
