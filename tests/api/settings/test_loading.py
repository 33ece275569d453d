from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from api.settings import HostPort, Origin, SettingsError, load, load_with_origins
from api.settings.model import names

KEYS = [f"{section}.{name}" for section, listed in names().items() for name in listed]
KNOWN = "known are listen, store, analysis, results, http, reports, log"
TOO_SLOW = "analysis.tick_s (700) must be below analysis.window_s (600)"
FORM = "not HOST:PORT, as 192.0.2.10:6343 or [::]:6343, with a numeric HOST"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file and goes where it is, so that messages are short."""
    monkeypatch.chdir(tmp_path)

    def put(text: str) -> Path:
        Path("s.toml").write_text(text, encoding="utf-8")
        return Path("s.toml")

    return put


def faults(path: Path | None, overrides: dict[str, object] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(path, overrides or {})
    assert str(caught.value).splitlines() == list(caught.value.faults)
    return list(caught.value.faults)


def test_options_win_over_the_environment_and_that_over_the_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        '[store]\ndirectory = "/file"\nhold_s = 1\nkeep_bytes = 1\n[log]\nlevel = "error"\n'
    )
    monkeypatch.setenv("RINGSCOPE_STORE__HOLD_S", "2")
    monkeypatch.setenv("ringscope_store__keep_bytes", "2")
    overrides = {"store.keep_bytes": 3, "listen.udp": "127.0.0.1:1", "reports.keep": None}
    made, origins = load_with_origins(path, overrides)
    assert (made.store.directory, made.store.hold_s, made.store.keep_bytes) == (
        Path("/file"),
        2.0,
        3,
    )
    assert (made.log.level, made.log.format) == ("error", "text")
    assert (made.listen.udp, made.reports.keep) == (HostPort("127.0.0.1", 1), 100)
    assert origins == {
        "store.directory": Origin("file", "s.toml:2"),
        "store.hold_s": Origin("environment", "RINGSCOPE_STORE__HOLD_S"),
        "store.keep_bytes": Origin("option", "command line"),
        "listen.udp": Origin("option", "command line"),
        "log.level": Origin("file", "s.toml:6"),
    }


def test_the_environment_says_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "STORE__DIRECTORY": "/data",
        "LISTEN__ALLOW": "10.0.0.0/8, fd00::/8,192.0.2.1",
        "STORE__KEEP_BYTES": "4_000",
        "ANALYSIS__LATENESS_S": "0.5",
        "HTTP__LISTEN": "",
        "ANALYSIS__INVENTORY": "i.toml",
        "LOG__FORMAT": "json",
    }
    for name, text in said.items():
        monkeypatch.setenv(f"RINGSCOPE_{name}", text)
    made = load(None)
    assert made.listen.allow == tuple(map(ip_network, ("10.0.0.0/8", "fd00::/8", "192.0.2.1/32")))
    assert (made.store.keep_bytes, made.analysis.lateness_s) == (4000, 0.5)
    assert (made.http.listen, made.analysis.inventory) == (None, Path("i.toml"))
    assert made.log.format == "json"


def test_an_empty_text_takes_back_what_the_file_says(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        '[listen]\nallow = ["10.0.0.0/8"]\n[store]\ndirectory = "d"\nkeep_bytes = 5\n'
        '[results]\nurl = "sqlite://"\n'
    )
    for name in ("LISTEN__ALLOW", "STORE__KEEP_BYTES", "RESULTS__URL"):
        monkeypatch.setenv(f"RINGSCOPE_{name}", "")
    made = load(path)
    assert (made.listen.allow, made.store.keep_bytes, made.results.url) == ((), None, None)


def test_every_fault_is_told_with_its_place(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        """top = 3
[listen]
udp = "localhost:6343"
allow = ["10.0.0.0/8", "10.0.0.1/8", 5]
receive_buffer_bytes = true
[store]
hold_s = nan
keep_bytes = 0
bogus = 1
[analysis]
window_rows = 1.5
lateness_s = -1
tick_s = 700
inventory = 3
[results]
url = "postgres://u:secret@h/d"
[log]
format = "yaml"
[wrong]
""",
    )
    monkeypatch.setenv("RINGSCOPE_REPORTS__KEEP", "many")
    monkeypatch.setenv("RINGSCOPE_REPORTS__EVERY_S", "1e300")
    monkeypatch.setenv("RINGSCOPE_HTTP", "127.0.0.1:80")
    monkeypatch.setenv("RINGSCOPE_HTPP__LISTEN", "127.0.0.1:80")
    told = faults(path, {"log.level": "loud"})
    assert sorted(told) == sorted(
        [
            f"s.toml:1: top: unknown section; {KNOWN}",
            f"s.toml:3: listen.udp: {FORM}",
            "s.toml:4: listen.allow[1]: 10.0.0.1/8 has host bits set",
            "s.toml:4: listen.allow[2]: '5' does not appear to be an IPv4 or IPv6 network",
            "s.toml:5: listen.receive_buffer_bytes: must be a number",
            "s.toml:7: store.hold_s: must be above 0",
            "s.toml:8: store.keep_bytes: must be above 0",
            f"s.toml:9: store.bogus: unknown key; known are {', '.join(names()['store'])}",
            "store.directory: missing: say it by s.toml, RINGSCOPE_STORE__DIRECTORY or an option",
            "s.toml:11: analysis.window_rows: must be a whole number",
            "s.toml:12: analysis.lateness_s: must be at least 0",
            f"s.toml:13: analysis.tick_s: {TOO_SLOW}",
            "s.toml:14: analysis.inventory: must be a text that is not empty",
            "s.toml:16: results.url: no kind of database is called 'postgres'",
            "s.toml:18: log.format: must be 'text' or 'json'",
            f"s.toml:19: wrong: unknown section; {KNOWN}",
            "RINGSCOPE_REPORTS__KEEP: reports.keep: must be a whole number",
            "RINGSCOPE_REPORTS__EVERY_S: reports.every_s: must be at most 1e+09",
            "RINGSCOPE_HTTP: http: its keys are set one by one: RINGSCOPE_HTTP__LISTEN",
            f"RINGSCOPE_HTPP__LISTEN: htpp: unknown section; {KNOWN}",
            "command line: log.level: must be 'debug', 'info', 'warning' or 'error'",
        ]
    )


@pytest.mark.parametrize(
    ("key", "value", "low", "high"),
    [
        ("analysis.lateness_s", "600", "analysis.lateness_s (600)", "analysis.window_s (600)"),
        ("analysis.tick_s", "601", "analysis.tick_s (601)", "analysis.window_s (600)"),
        ("store.keep_age_s", "5", "store.hold_s (10)", "store.keep_age_s (5)"),
        ("store.bins_keep_age_s", "9", "analysis.window_s (600)", "store.bins_keep_age_s (9)"),
        ("results.keep_age_s", "9", "analysis.window_s (600)", "results.keep_age_s (9)"),
    ],
)
def test_values_that_do_not_fit_each_other(
    write: Write, key: str, value: str, low: str, high: str
) -> None:
    section, _, name = key.partition(".")
    path = write(f"[{section}]\n{name} = {value}\n")
    told = faults(path, {"store.directory": "d"})
    assert told == [f"s.toml:2: {key}: {low} must be below {high}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[ store ] # rows\n\n"hold_s" = 0\n', ""),
        ("# hold_s = 1\n[store]\n  hold_s=0\n", ":3"),
        ("\ufeffstore.hold_s = 0\n", ":1"),
        ("store . hold_s = 0\n", ":1"),
        ("store = {hold_s = 0}\n", ""),
        ("[analysis]\ntick_s = 1\n[store]\r\nhold_s = 0\r\n", ":4"),
    ],
)
def test_lines_are_told_where_they_can_be(write: Write, text: str, line: str) -> None:
    told = faults(write(text), {"store.directory": "d"})
    assert told == [f"s.toml{line}: store.hold_s: must be above 0"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"[store\n", "s.toml: not TOML: "),
        (b"[store]\nhold_s = 1\nhold_s = 2\n", "s.toml: not TOML: "),
        (b"store = " + b"[" * 100_000, "s.toml: not TOML: "),
        (b"n = " + b"9" * 10_000, "s.toml: not TOML: "),
        (b"[store]\ndirectory = '\xff'\n", "s.toml: offset 21: not UTF-8 text"),
        (b"store = 3\n", "s.toml:1: store: must be a table: [store]"),
        (b"[[store]]\n", "s.toml: store: must be a table: [store]"),
    ],
)
def test_files_that_cannot_be_read(write: Write, content: bytes, fault: str) -> None:
    write("").write_bytes(content)
    assert faults(Path("s.toml"), {"store.directory": "d"})[0].startswith(fault)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert faults(tmp_path / "none") == [f"{tmp_path / 'none'}: No such file or directory"]
    assert faults(tmp_path) == [f"{tmp_path}: Is a directory"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("results.sqlite", "not a database URL, as postgresql+psycopg://host/name"),
        ("postgresql://u:secret@h:port/d", "not a database URL, as postgresql+psycopg://host/name"),
        ("oracel://u:secret@h/d", "no kind of database is called 'oracel'"),
        ("postgresql://u:a@secret@h/d", "an @ in a password is written %40"),
        ("postgresql://u:secret\u001b@h/d", "holds characters that cannot be printed"),
    ],
)
def test_urls_that_are_none_are_not_repeated(url: str, reason: str) -> None:
    told = faults(None, {"store.directory": "d", "results.url": url})
    assert told == [f"command line: results.url: {reason}"]


def test_a_directory_that_is_no_text(write: Write) -> None:
    path = write('[store]\ndirectory = ""\n')
    reason = "must be a text that is not empty"
    assert faults(path) == [f"s.toml:2: store.directory: {reason}"]
    told = faults(None, {"store.directory": "a\nb"})
    assert told == ["command line: store.directory: holds characters that cannot be printed"]


def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes makes them of a service's name, and our own that are no settings."""
    for name in ("RINGSCOPE_PORT", "RINGSCOPE_HTTP_PORT_80_TCP", "RINGSCOPE_TRACEBACK", "X__Y"):
        monkeypatch.setenv(name, "tcp://10.0.0.1:80")
    load(None, {"store.directory": "d"})


def test_an_option_that_no_setting_has() -> None:
    with pytest.raises(KeyError):
        load(None, {"store.directory": "d", "storage.directory": "d"})


@given(
    st.dictionaries(
        st.sampled_from(KEYS), st.text(st.characters(exclude_characters="\0", codec="utf-8"))
    )
)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_environment_breaks_it(said: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for key, text in said.items():
            patch.setenv("RINGSCOPE_" + key.upper().replace(".", "__"), text)
        try:
            _, origins = load_with_origins(None)
        except SettingsError:
            return  # with words, not by another error
        assert origins.keys() == said.keys()
