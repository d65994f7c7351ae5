"""A toolkit for HTTP handlers of every API: bodies, responses, deadlines, tags, problems."""
