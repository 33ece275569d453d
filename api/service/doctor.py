"""Why there is no job yet: what stands in the way of samples, in the order of their way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from api.service.account import Account, Check, Situation
from collector.schema import HeaderState, Transport

State = Literal["ok", "note", "wrong"]

PATIENCE_S: Final = 30.0  # after a start: counters are sent every 20 s or so, by most switches
TOO_MANY: Final = 0.01  # of datagrams or samples lost or late: conclusions begin to suffer
_SHOWN: Final = 4  # names or reasons in one line
_SFLOW_PORT: Final = "6343"
_LOOPBACK: Final = ("127.", "[::1]")
_EVERYWHERE: Final = ("0.0.0.0:", "[::]:")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found at one step of a sample's way.

    Parameters
    ----------
    step : str
    state : str
        "ok"; "note": worth knowing, or a matter of time; "wrong": to be mended.
    text : str
        What is so.
    advice : str
        What to do about it; empty where there is nothing to do.
    """

    step: str
    state: State
    text: str
    advice: str = ""


def telemetry_findings(
    account: Account, checks: Sequence[Check], situation: Situation, now_ns: int
) -> tuple[tuple[Finding, ...], bool]:
    """What is found on the way from the switches to the analysis.

    Parameters
    ----------
    account, checks, situation
        What the service says of itself.
    now_ns
        The time, ns since the epoch.

    Returns
    -------
    findings
        In the order of the way; up to the first step that lets nothing through.
    passable : bool
        Whether data reaches the analysis.
    """
    findings: list[Finding] = list(_service(checks))
    steps = (
        _datagrams(account, situation, (now_ns - account.started_ns) / 1e9),
        _senders(account, situation),
        _decoding(account, situation),
        _samples(account),
        _headers(account, situation),
    )
    for step in steps:
        found = list(step)
        findings += (finding for finding, _ in found)
        if any(closed for _, closed in found):
            return tuple(findings), False
    findings += _exporters(account, situation)
    findings += _directions(situation)
    findings += _inventory(situation)
    findings += _clocks(account, situation)
    findings += _losses(account)
    return tuple(findings), True


def _service(checks: Sequence[Check]) -> Iterator[Finding]:
    for check in checks:
        if not check.ok:
            yield Finding("service", "wrong", f"{check.name}: {check.reason}", "see the log")
    if all(check.ok for check in checks):
        yield Finding("service", "ok", "it runs, and all of its parts work")


# Each of these gives findings, and whether nothing passes here.
_Step = Iterator[tuple[Finding, bool]]


def _datagrams(account: Account, situation: Situation, up_s: float) -> _Step:
    listen = situation.listen
    if account.datagrams:
        yield Finding("datagrams", "ok", f"{account.datagrams:,} came to {listen}"), False
        return
    if listen.startswith(_LOOPBACK):
        yield (
            Finding(
                "datagrams",
                "wrong",
                f"none: {listen} can be reached from this machine only",
                'listen on listen.udp = "[::]:6343"',
            ),
            True,
        )
        return
    port = listen.rpartition(":")[2]
    address = "ADDRESS-OF-THIS-MACHINE" if listen.startswith(_EVERYWHERE) else listen[: -len(port)]
    option = "" if port == _SFLOW_PORT else f" --port {port}"
    yield (
        Finding(
            "datagrams",
            "note" if up_s < PATIENCE_S else "wrong",
            f"none has come to {listen} since the start {_span(up_s)} ago",
            "point each switch here, as in SONiC: config sflow collector add ringscope"
            f" {address.rstrip(':').strip('[]')}{option}; config sflow enable."
            f" If it is: does a firewall stop UDP port {port}?",
        ),
        True,
    )


def _senders(account: Account, situation: Situation) -> _Step:
    refused = account.refused_datagrams
    if not refused:
        return
    closed = refused >= account.datagrams
    yield (
        Finding(
            "senders",
            "wrong" if closed else "note",
            f"{'all' if closed else f'{refused:,}'} datagrams were refused: their senders are not"
            f" in listen.allow ({_listed(situation.allowed)})",
            "add the networks that the switches send from, if these are ours",
        ),
        closed,
    )


def _decoding(account: Account, situation: Situation) -> _Step:
    if not account.decode_errors:
        return
    heard = account.datagrams - account.refused_datagrams
    closed = not account.exporters
    worst = sorted(situation.errors, key=lambda error: -error.count)
    reasons = [
        f"{error.reason} ({'once' if error.count == 1 else f'{error.count:,} times'}"
        + (f", {error.exporter})" if error.exporter else ")")
        for error in worst
    ]
    much = closed or account.decode_errors >= TOO_MANY * heard
    yield (
        Finding(
            "decoding",
            "wrong" if much else "note",
            f"{'nothing' if closed else 'not everything'} can be read: "
            + (_listed(reasons) or f"{account.decode_errors:,} errors"),
            "sFlow version 5, IPFIX, and NetFlow versions 9 and 5 are understood" if closed else "",
        ),
        closed,
    )


def _samples(account: Account) -> _Step:
    if account.flow_samples:
        yield (
            Finding(
                "samples",
                "ok",
                f"{account.flow_samples:,} of packets and {account.counter_samples:,} of counters"
                + (
                    f"; {account.flow_records:,} flow records are stored, not analysed"
                    if account.flow_records
                    else ""
                ),
            ),
            False,
        )
        return
    if account.flow_records:
        yield (
            Finding(
                "samples",
                "wrong",
                f"{account.flow_records:,} flow records and no samples of packets: records have no"
                " sequence numbers, and are stored, not analysed as they come",
                "ringscope analyze --store reads them; for the rest sample packets with their"
                " headers, by sFlow or as IPFIX's dataLinkFrameSection",
            ),
            True,
        )
        return
    what = "only counters come, no samples of packets" if account.counter_samples else "none"
    yield (
        Finding(
            "samples",
            "wrong",
            f"{what}, from {_exporter_count(len(account.exporters))}",
            "turn on sampling of the ports, as in SONiC: config sflow interface sample-rate"
            " Ethernet0 4000",
        ),
        True,
    )


def _headers(account: Account, situation: Situation) -> _Step:
    headers, transports = situation.headers, situation.transports
    cut = sum(headers[state] for state in HeaderState if state.name.startswith("TRUNCATED_"))
    roce, tcp = transports[Transport.ROCEV2], transports[Transport.TCP]
    # Headers cut within BTH count as RoCE as well.
    closed = not headers[HeaderState.COMPLETE] or not roce + tcp
    if cut and (closed or cut >= TOO_MANY * account.flow_samples):
        yield (
            Finding(
                "headers",
                "wrong",
                f"{cut:,} of {account.flow_samples:,} samples are cut before their RoCE or TCP"
                " header ends",
                "let the switches copy 128 bytes of each packet (sFlow header size)",
            ),
            closed,
        )
    elif closed:
        yield (
            Finding(
                "headers",
                "wrong",
                f"none of {account.flow_samples:,} samples is of RoCEv2 or TCP",
                "sample the ports that GPU traffic passes, not those of management",
            ),
            True,
        )
    else:
        yield Finding("headers", "ok", f"{roce:,} samples of RoCEv2, {tcp:,} of TCP"), False


def _exporters(account: Account, situation: Situation) -> Iterator[Finding]:
    come = {exporter.agent for exporter in account.exporters}
    missing = [f"{name} ({agent})" for name, agent in situation.switches if agent not in come]
    mute = [e.agent for e in account.exporters if e.state == "counters_only"]
    unsaid = [e.agent for e in account.exporters if e.state == "rate_unknown"]
    silent = [e.agent for e in account.exporters if e.state == "silent"]
    untold = [e.agent for e in account.exporters if e.state == "templates_missing"]
    if missing:
        yield Finding(
            "exporters",
            "wrong",
            f"nothing comes from {len(missing)} of {len(situation.switches)} switches of the"
            f" inventory: {_listed(missing)}",
            "point them here too: what passes only them is not seen",
        )
    if silent:
        yield Finding(
            "exporters",
            "note",
            f"nothing comes any more from {_listed(silent)}",
            "look whether they still run, and still send here",
        )
    if untold:
        yield Finding(
            "exporters",
            "note",
            f"records of {_listed(untold)} wait for templates that have not come",
            "let these exporters send their templates every minute or so",
        )
    if mute:
        yield Finding(
            "exporters",
            "note",
            f"only counters come from {_listed(mute)}",
            "nothing passes them, or sampling of their ports is off",
        )
    if unsaid:
        yield Finding(
            "exporters",
            "note",
            f"{_listed(unsaid)} do not say how often they sample",
            "volumes rest on sequence numbers alone",
        )
    if not missing and not silent and not untold and not mute and not unsaid:
        yield Finding("exporters", "ok", f"samples from {_exporter_count(len(come))}")


def _directions(situation: Situation) -> Iterator[Finding]:
    doubts = situation.doubts
    if doubts.only_receiving:
        yield Finding(
            "directions",
            "wrong" if 4 * doubts.only_receiving > doubts.endpoints else "note",
            f"{doubts.only_receiving} of {doubts.endpoints} endpoints are seen to receive and"
            " never to send",
            "sample every port of every leaf as packets come in (SONiC: config sflow"
            " sample-direction rx)",
        )


def _inventory(situation: Situation) -> Iterator[Finding]:
    unnamed, endpoints = situation.doubts.unnamed, situation.doubts.endpoints
    if not situation.hosts:
        yield Finding(
            "inventory",
            "note",
            "there is none: every address counts as a host of its own",
            "name hosts and NICs in a file: analysis.inventory",
        )
    elif unnamed:
        yield Finding(
            "inventory",
            "note",
            f"it does not know {unnamed} of {endpoints} endpoints that are in no job",
            "add their hosts: without them rails of one job may not find each other",
        )


def _clocks(account: Account, situation: Situation) -> Iterator[Finding]:
    if account.late_samples >= TOO_MANY * account.flow_samples and account.late_samples:
        yield Finding(
            "clocks",
            "wrong",
            f"{account.late_samples:,} of {account.flow_samples:,} samples were not analysed: more"
            f" than {situation.lateness_s:g} s late, a minute ahead, or too many at once",
            "set the switches' clocks by NTP or PTP, or raise analysis.lateness_s",
        )
    off = [
        f"{e.agent} ({e.clock.corrected_s:+.3f} s)"
        for e in account.exporters
        if e.clock.corrected_s
    ]
    if off:
        yield Finding(
            "clocks",
            "note",
            f"clocks that are off, put right here: {_listed(off)}",
            "set the switches' clocks by NTP or PTP: what is known of them here may be some"
            " milliseconds wrong",
        )
    if account.analysis_lag_s > situation.lateness_s + PATIENCE_S:
        yield Finding(
            "clocks",
            "wrong",
            f"the analysis is {_span(account.analysis_lag_s)} behind",
            "it needs more processor time, or a shorter analysis.window_s",
        )


def _losses(account: Account) -> Iterator[Finding]:
    before = sum(exporter.lost_datagrams for exporter in account.exporters)
    worst = sorted(account.exporters, key=lambda exporter: -exporter.lost_datagrams)
    names = [exporter.agent for exporter in worst if exporter.lost_datagrams]
    records = sum(exporter.lost_records for exporter in account.exporters)
    of_records = [exporter.agent for exporter in account.exporters if exporter.lost_records]
    came = max(account.datagrams, 1)
    dropped = sum(exporter.dropped_samples for exporter in account.exporters)
    losses = (
        (
            account.kernel_drops,
            came + account.kernel_drops,
            "datagrams in the kernel's buffer",
            "raise net.core.rmem_max and listen.receive_buffer_bytes",
        ),
        (
            account.backlog_drops,
            came,
            "datagrams before the decoder, which does not keep up",
            "give it a faster core, or sample less",
        ),
        (
            before,
            came + before,
            f"datagrams on the way from {_listed(names)}",
            "look for drops between these switches and this machine",
        ),
        (
            records,
            account.flow_records + records,
            f"flow records on the way from {_listed(of_records)}",
            "look for drops between these switches and this machine",
        ),
        (
            dropped,
            account.flow_samples + dropped,
            "samples that switches chose and could not send",
            "sample less, or let the switches' processors take more samples",
        ),
        (
            account.rows_lost,
            account.rows_lost + account.rows_stored + account.rows_held,
            "samples that the disk did not take",
            "see store.directory and the log",
        ),
    )
    for lost, of, what, advice in losses:
        if lost:
            state: State = "wrong" if lost >= TOO_MANY * of else "note"
            yield Finding("losses", state, f"{lost:,} of {of:,} {what}", advice)
    if not any(lost for lost, _, _, _ in losses):
        yield Finding("losses", "ok", "none")


def _exporter_count(count: int) -> str:
    return f"{count:,} exporter{'s' * (count != 1)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
