"""Hands a group over from one authority, the giver, to a second authority, the taker."""
