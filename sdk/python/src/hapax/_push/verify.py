"""Verifies requests by Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

MAX_SIGNATURES = 16
MIN_SECRET_BYTES = 24


class NotVerified(Exception):
    """The request is not one of the server's."""


class Verifier:
    """Accepts requests that are signed with one of the secrets, and are not too old."""

    def __init__(self, secrets: Sequence[str], tolerance: float, now: Callable[[], float]) -> None:
        if not secrets:
            raise ValueError("give the secret of the push worker")
        self._keys = [_key_of(secret) for secret in secrets]
        self._tolerance = tolerance
        self._now = now

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """Returns the id of the request. `headers` have names in lower case."""
        message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not message_id or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            raise NotVerified("the headers webhook-id and webhook-timestamp are missing")
        if abs(self._now() - int(timestamp)) > self._tolerance:
            raise NotVerified("the timestamp is too old, or too new")
        signed = f"{message_id}.{timestamp}.".encode() + body
        given = [part[3:] for part in headers.get("webhook-signature", "").split(" ") if part.startswith("v1,")]
        for key in self._keys:
            wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            if any(hmac.compare_digest(wanted.encode(), part.encode()) for part in given[:MAX_SIGNATURES]):
                return message_id
        raise NotVerified("the signature is missing, or not made with the secret")


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < MIN_SECRET_BYTES:
        raise ValueError("a secret of a push worker is whsec_ and base64")
    return key
