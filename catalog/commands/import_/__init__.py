"""`concord import`: document by document, with a report on each document."""
