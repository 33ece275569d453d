"""Kinds of value that settings have, from what a TOML file or the environment says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator
from pydantic_settings import NoDecode

_MOST_S: Final = 1e9  # some 32 years; in ns it fits an int64
_MOST_BUFFER_BYTES: Final = (1 << 31) - 1  # a socket option is a C int
_MOST_WORKERS: Final = 64  # each has a socket with a buffer, a backlog and rows in memory
_ADDRESS: Final = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+)):(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where to listen: a numeric address and a port; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST:PORT, where IPv6 stands in brackets.

        Raises
        ------
        ValueError
            The text is nothing of that form.
        """
        found = _ADDRESS.fullmatch(text)
        try:
            if found is not None and int(found[3]) < 1 << 16:
                host = ip_address(found[1] or found[2])
                if host.version == (6 if found[1] else 4):
                    return cls(found[1] or found[2], int(found[3]))
        except ValueError:
            pass  # no address: said below
        raise ValueError("not HOST:PORT, as 192.0.2.10:6343 or [::]:6343, with a numeric HOST")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _host_port(value: object) -> HostPort:
    return value if isinstance(value, HostPort) else HostPort.parse(_text(value))


def _network(value: object) -> IPv4Network | IPv6Network:
    return ip_network(str(value))


def _listed(value: object) -> object:
    """A list may be one text with commas, which is how the environment says it."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _number(value: object) -> object:
    if isinstance(value, bool):  # 1 to pydantic
        raise ValueError("must be a number")
    return value


def _none(value: object) -> object:
    return None if value == "" else value


def _text(value: object) -> str:
    text = str(value) if isinstance(value, str | Path) else ""
    if not text:
        raise ValueError("must be a text that is not empty")
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    return text


def _url(value: object) -> str:
    """A URL as SQLAlchemy reads it; reasons do not repeat it, since it may hold a password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    text = _text(value)
    try:
        url = make_url(text)
        url.get_dialect()
    except NoSuchModuleError:
        raise ValueError(f"no kind of database is called {url.drivername!r}") from None
    except (ArgumentError, ValueError):
        raise ValueError("not a database URL, as postgresql+psycopg://host/name") from None
    if "@" in (url.host or ""):  # the rest of a password, which would be shown as a host
        raise ValueError("an @ in a password is written %40")
    return text


Seconds = Annotated[float, BeforeValidator(_number), Field(gt=0, le=_MOST_S)]
SecondsOrZero = Annotated[float, BeforeValidator(_number), Field(ge=0, le=_MOST_S)]
Count = Annotated[int, BeforeValidator(_number), Field(gt=0)]
BufferBytes = Annotated[int, BeforeValidator(_number), Field(gt=0, le=_MOST_BUFFER_BYTES)]
Workers = Annotated[int, BeforeValidator(_number), Field(gt=0, le=_MOST_WORKERS)]
CountOrNone = Annotated[Count | None, BeforeValidator(_none)]
Place = Annotated[Path, BeforeValidator(_text)]
PlaceOrNone = Annotated[Place | None, BeforeValidator(_none)]
# NoDecode: the environment says these as plain text, not as JSON.
Address = Annotated[HostPort, PlainValidator(_host_port), NoDecode]
AddressOrNone = Annotated[
    Annotated[HostPort, PlainValidator(_host_port)] | None, BeforeValidator(_none), NoDecode
]
UrlOrNone = Annotated[
    Annotated[str, BeforeValidator(_url)] | None, BeforeValidator(_none), Field(repr=False)
]
Networks = Annotated[
    tuple[Annotated[IPv4Network | IPv6Network, PlainValidator(_network)], ...],
    BeforeValidator(_listed),
    NoDecode,
]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
