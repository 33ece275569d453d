"""The application with its OpenAPI document, into which the contract's definitions go."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from api.contract import Document, schema
from api.http.problems import MEDIA_TYPE
from api.http.schemas import CONTRACT, Problem

# For every answer that is none of those described.
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "a problem (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


class Application(FastAPI):
    """FastAPI, except that objects of the contract are described by the contract's own schema."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document["components"]["schemas"]
            schemas["Problem"] = Problem.model_json_schema()
            schemas.update(schema()["$defs"])
            self.openapi_schema = _linked(document)
        return self.openapi_schema


def _linked(value: Any) -> Any:
    """The same with every reference to the contract pointing to where it is here."""
    if isinstance(value, list):
        return [_linked(item) for item in value]
    if not isinstance(value, dict):
        return value
    linked: Document = {name: _linked(item) for name, item in value.items() if name != CONTRACT}
    if CONTRACT in value:
        linked["$ref"] = f"#/components/schemas/{value[CONTRACT]}"
    elif isinstance(value.get("$ref"), str):
        linked["$ref"] = value["$ref"].replace("#/$defs/", "#/components/schemas/")
    return linked
