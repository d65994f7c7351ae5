"""The operations of a node's HTTP API, each declared once: path, right, bodies and answers.

The router, the access control, the OpenAPI document and the client derive from the declarations.
The modules import pydantic and pure modules alone, since clients use them, too.
"""
