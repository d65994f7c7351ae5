"""Takes this authority's lost entities back from its replicas, and repairs copies."""
