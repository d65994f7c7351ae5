"""`concord import`: document by document, with a report of each."""
