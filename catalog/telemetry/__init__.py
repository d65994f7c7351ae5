"""The telemetry of a node: the log, traces, and the metrics of a process."""
