"""CloudEvents Registry 0.4 under `/registry/0.4`: an older edition of the native API."""
