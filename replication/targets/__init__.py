"""The servers that a link can write to: any xRegistry server, and those of three older drafts."""
