"""A codec that encrypts: the server keeps what it cannot read. Needs the package `cryptography`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from typing import Any, Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .codec import Codec, JsonCodec, canonical
from .errors import CodecError
from .http import to_bytes

_MARK = "pawl:sealed"
_NONCE_LEN = 12


class EncryptingCodec:
    """Seals payloads, results and signals with AES-256-GCM.

    `keys` are keys of 32 bytes by id; new values are sealed with `current`, others are still
    opened: to rotate, add a key and make it current. `fingerprint_key` makes the fingerprints of
    inputs (an HMAC), and stays the same through rotations, or replays are mismatches. Values that
    were never sealed, as the answers of people, are read as they are; `plain=False` refuses them.
    """

    seals = True

    def __init__(self, keys: Mapping[str, bytes], current: str, fingerprint_key: bytes, *,
                 inner: Codec | None = None, plain: bool = True) -> None:
        if current not in keys:
            raise ValueError(f'there is no key "{current}"')
        self._ciphers = {id: AESGCM(key) for id, key in keys.items()}
        self._current, self._fingerprint_key, self._plain = current, fingerprint_key, plain
        self._inner: Codec = inner or JsonCodec()

    def encode(self, value: Any) -> Any:
        """The sealed value, as a JSON object."""
        nonce = os.urandom(_NONCE_LEN)
        sealed = self._ciphers[self._current].encrypt(
            nonce, to_bytes(self._inner.encode(value)), self._current.encode())
        return {_MARK: base64.b64encode(nonce + sealed).decode(), "key": self._current}

    def decode(self, value: Any, annotation: Any) -> Any:
        """Opens a value. Raises CodecError when its key is unknown, or it was changed."""
        if not isinstance(value, dict) or _MARK not in value:
            if not self._plain and value is not None:
                raise CodecError("the value is not encrypted")
            return self._inner.decode(value, annotation)
        cipher = self._ciphers.get(str(value.get("key")))
        if cipher is None:
            raise CodecError(f'there is no key "{value.get("key")}"')
        try:
            data = base64.b64decode(value[_MARK], validate=True)
            opened = cipher.decrypt(data[:_NONCE_LEN], data[_NONCE_LEN:], value["key"].encode())
        except (InvalidTag, ValueError) as error:
            raise CodecError("the value was changed, or sealed with another key") from error
        return self._inner.decode(json.loads(opened), annotation)

    def fingerprint(self, value: Any) -> str:
        """An HMAC, so that it tells nothing of the input."""
        text = canonical(self._inner.encode(value)).encode()
        return hmac.new(self._fingerprint_key, text, hashlib.sha256).hexdigest()
