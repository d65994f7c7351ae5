"""A toolkit for the HTTP handlers of every API: bodies, responses, deadlines, tags, problems."""
