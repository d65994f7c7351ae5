"""Access: the callers of a node, their tokens and certificates, and the roles that permit requests.

`accesscontrol.py` has the one middleware that decides, by `routeneeds.py`.
"""
