"""Entity tags: what a client has already is not sent again (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from http import HTTPStatus
from secrets import token_bytes
from typing import Annotated, Any, Final

from fastapi import Header
from starlette.responses import Response

_DIGEST_BYTES: Final = 16
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
# Another run may be of another version, which writes the same otherwise.
_RUN: Final = token_bytes(_DIGEST_BYTES)

NOT_MODIFIED: Final[dict[int | str, dict[str, Any]]] = {
    HTTPStatus.NOT_MODIFIED.value: {"description": "If-None-Match names what there is"}
}

# May stand in a request more than once.
Known = Annotated[list[str] | None, Header(alias="If-None-Match")]


def entity_tag(*parts: object) -> str:
    """A weak tag of an answer that is made from these parts, and from nothing else that changes.

    Parameters
    ----------
    parts
        JSON.
    """
    hashed = blake2b(json.dumps(parts).encode(), key=_RUN, digest_size=_DIGEST_BYTES)
    return f'W/"{hashed.hexdigest()}"'


def is_known(tag: str, known: Known) -> bool:
    """Whether If-None-Match names this tag, by weak comparison; what is no list names none."""
    if not known:
        return False
    if [text.strip() for text in known] == ["*"]:
        return True
    return tag.removeprefix("W/") in _TAG.findall(",".join(known))


def not_modified(tag: str) -> Response:
    """The answer to a client that has what this tag names."""
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
