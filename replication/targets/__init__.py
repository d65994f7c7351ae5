"""The servers that a link can write to: xRegistry servers, and servers of three older drafts."""
