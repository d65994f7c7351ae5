"""Federations of real nodes under faults, and the promises that they keep nevertheless."""
