"""Prints an access token that an OpenID Connect provider gives to a client for its secret.

The provider is ISSUER, the client CLIENT_ID, its secret CLIENT_SECRET: all in the environment.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.parse
import urllib.request
from typing import Any

SECONDS = 30


def answer_to(url: str, form: dict[str, str] | None = None, **headers: str) -> Any:
    data = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return json.load(response)


def main() -> None:
    issuer, id, secret = (os.environ[name] for name in ("ISSUER", "CLIENT_ID", "CLIENT_SECRET"))
    provider = answer_to(f"{issuer}/.well-known/openid-configuration")
    # RFC 6749, 2.3.1
    pair = f"{urllib.parse.quote_plus(id)}:{urllib.parse.quote_plus(secret)}"
    given = answer_to(
        provider["token_endpoint"],
        {"grant_type": "client_credentials"},
        Authorization=f"Basic {base64.b64encode(pair.encode()).decode()}",
    )
    print(given["access_token"])


if __name__ == "__main__":
    main()
