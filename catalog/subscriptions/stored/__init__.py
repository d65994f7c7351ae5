"""The rows of subscriptions: progress, attempts, dead letters, credentials, consents and leases."""
