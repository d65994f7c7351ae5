"""`concord apply` and `concord diff`: make a catalog equal to documents, or show the difference."""
