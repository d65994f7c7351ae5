"""The shared parts of sources, sinks and runners of links."""
