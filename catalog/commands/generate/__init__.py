"""`concord generate`: code from definitions whose versions are pinned."""
