"""Who sends a request, and whether that caller may: tokens, certificates, roles.

`accesscontrol.py` has the one middleware that decides, by `routeneeds.py`.
"""
