"""Access: the callers of a node, their tokens and certificates, and the roles that permit requests.

`catalog/web/door.py` decides by the rights that operations name.
"""
