// Exporters: who sends samples, at which rate, by whose clock, and what got lost.

import { el, panel } from "./dom.js";
import { API, ask } from "./service.js";
import { clock, count, duration, natural, plural, words } from "./units.js";

const MOST = 500;
const BASES = {
  exporter: "samples carry the exporter's time (sFlow 0:1043)",
  interpolated: "the exporter's clock is off: its times are put right",
  arrival: "times are those of arrival here: iteration ends are less exact",
};
const STATES = {
  ok: "flow samples or records of known rate come",
  templates_missing: "records come whose template has not come: they wait, and are not read",
  counters_only:
    "it sends counters, but no flow samples, or none any more though packets pass: sampling is off",
  rate_unknown:
    "what it sends does not say how densely it samples: volumes by count are not known",
  silent: "it was heard since the service started, but nothing comes any more",
  moved: "it has another address now and counts as the exporter in its note",
};

// Exporters of the window, then those that were heard before it, by agent.
export function allExporters(answer) {
  const key = (exporter) => `${exporter.agent} ${exporter.sub_agent ?? exporter.domain}`;
  const here = answer.telemetry?.exporters ?? [];
  const known = new Set(here.map(key));
  const before = (answer.service?.exporters ?? [])
    .filter((exporter) => !known.has(key(exporter)))
    .map((exporter) => (answer.window ? { ...exporter, state: "silent" } : exporter));
  return [...here, ...before].sort((a, b) => natural(key(a), key(b)));
}

// How far a clock is off; documents of older versions do not say.
function clockCell(exporter) {
  const { clock, clock_offset_s: offset } = exporter;
  const label = { "data-label": "clock" };
  if (!clock || offset === null)
    return el(
      "td",
      label,
      el("span", { class: "unknown", "data-tip": clock?.reason ?? null, tabindex: 0 }, "?"),
    );
  const sign = offset < 0 ? "−" : "+";
  const parts = [
    clock.basis === "hops"
      ? `by ${plural(clock.samples, "sample")} of connections that others sampled too`
      : `by the arrival of ${plural(clock.samples, "datagram")}, the network's delay included`,
    clock.corrected_s && `put right by ${duration(Math.abs(clock.corrected_s), 3)}`,
    clock.skew_ppm !== null && `runs ${clock.skew_ppm.toFixed(1)} ppm fast`,
    clock.jitter_s !== null && `datagrams arrive ${duration(clock.jitter_s, 2)} unevenly`,
  ];
  return el(
    "td",
    label,
    el(
      "span",
      {
        class: clock.corrected_s ? "bad" : null,
        "data-tip": parts.filter(Boolean).join("; "),
        tabindex: 0,
      },
      `${sign}${duration(Math.abs(offset), 3)} ± ${duration(clock.error_s, 2)}`,
    ),
  );
}

// Lost on the way by their numbers, or dropped by the sampler; the pools tell what else is missing.
function samplesLost(exporter) {
  const { expected_samples: expected = 0, pooled_samples: pooled = 0 } = exporter;
  const { due_samples: due = 0, counted_samples: counted = 0 } = exporter;
  const { lost_records: records = 0, waiting_sets: waiting = 0 } = exporter;
  const lost = (exporter.lost_samples ?? 0) + (exporter.dropped_samples ?? 0) + records;
  const tip = [
    `${count(exporter.lost_samples ?? 0)} lost on the way`,
    records && `${count(records)} records lost on the way`,
    waiting && `${plural(waiting, "set")} of records wait for their template`,
    `${count(exporter.dropped_samples ?? 0)} not sent by the switch`,
    expected && `${count(pooled)} came of ${count(expected)} due by the pools they are chosen from`,
    due && `${count(counted)} came of ${count(due)} due by the packets that its ports counted`,
  ];
  return el(
    "td",
    { "data-label": "samples lost", class: `number ${lost ? "bad" : "soft"}` },
    el("span", { "data-tip": tip.filter(Boolean).join("; "), tabindex: 0 }, count(lost)),
  );
}

function row(exporter) {
  const rates = exporter.sampling_rates ?? [];
  const lost = exporter.lost_datagrams ?? 0;
  const errors = exporter.decode_errors ?? 0;
  return el(
    "tr",
    {
      "data-key": `${exporter.agent} ${exporter.sub_agent ?? exporter.domain}`,
      class: exporter.state,
    },
    el(
      "th",
      { scope: "row", "data-label": "exporter" },
      el("span", { class: "address" }, exporter.agent),
      el(
        "span",
        { class: "soft" },
        ` ${exporter.sub_agent === undefined ? `domain ${exporter.domain}` : `sub ${exporter.sub_agent}`}`,
      ),
    ),
    el(
      "td",
      { "data-label": "state" },
      el(
        "span",
        { class: `status ${exporter.state}`, "data-tip": STATES[exporter.state], tabindex: 0 },
        el("span", { class: "lamp" }),
        words(exporter.state),
      ),
    ),
    el(
      "td",
      { "data-label": "rates", class: "number" },
      rates.length
        ? rates.map((rate) => `1:${count(rate)}`).join(", ")
        : el("span", { class: "unknown" }, "?"),
    ),
    el(
      "td",
      { "data-label": "time basis" },
      el(
        "span",
        {
          class: `clock ${exporter.time_basis}`,
          "data-tip": BASES[exporter.time_basis],
          tabindex: 0,
        },
        exporter.time_basis,
      ),
    ),
    clockCell(exporter),
    el("td", { "data-label": "flow samples", class: "number" }, count(exporter.flow_samples)),
    el(
      "td",
      { "data-label": "flow records", class: "number" },
      count(exporter.flow_records ?? 0),
    ),
    el("td", { "data-label": "counters", class: "number" }, count(exporter.counter_samples)),
    el("td", { "data-label": "datagrams", class: "number" }, count(exporter.datagrams)),
    el("td", { "data-label": "lost", class: `number ${lost ? "bad" : "soft"}` }, count(lost)),
    samplesLost(exporter),
    el("td", { "data-label": "errors", class: `number ${errors ? "bad" : "soft"}` }, count(errors)),
    el("td", { "data-label": "protocol", class: "soft" }, exporter.protocol),
  );
}

const HEADS = [
  "exporter",
  "state",
  "rates",
  "time basis",
  "clock",
  "flow samples",
  "flow records",
  "counters",
  "datagrams",
  "lost",
  "samples lost",
  "errors",
  "protocol",
];
const WORDY = new Set(["exporter", "state", "time basis", "clock", "protocol"]);

function table(answer) {
  const exporters = allExporters(answer);
  if (!exporters.length) return el("p", { class: "empty" }, "No exporter was heard yet.");
  const shown = exporters.slice(0, MOST);
  return [
    el(
      "table",
      { class: "stacking exporters" },
      el("caption", { class: "hidden" }, "exporters"),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          HEADS.map((head) =>
            el("th", { scope: "col", class: WORDY.has(head) ? null : "number" }, head),
          ),
        ),
      ),
      el("tbody", {}, shown.map(row)),
    ),
    exporters.length > MOST &&
      el("p", { class: "soft" }, `${plural(exporters.length - MOST, "more exporter")} not shown.`),
  ];
}

function account(answer) {
  const { service, window } = answer;
  const fact = (name, value, bad = false, tip = null) =>
    el(
      "div",
      { "data-key": name, "data-tip": tip, tabindex: tip ? 0 : null },
      el("dt", {}, name),
      el("dd", { class: bad ? "bad" : null }, value),
    );
  if (!service) return null;
  return [
    fact("window", window ? `${clock(window.start)} – ${clock(window.end)}` : "none yet"),
    fact(
      "analysis behind",
      duration(service.analysis_lag_s, 2),
      false,
      "how far the end of the window is behind the newest arrival",
    ),
    fact("datagrams", count(service.datagrams)),
    fact("flow samples", count(service.flow_samples)),
    fact("decode errors", count(service.decode_errors), service.decode_errors > 0),
    fact(
      "kernel drops",
      count(service.kernel_drops),
      service.kernel_drops > 0,
      "the socket's buffer was full",
    ),
    fact(
      "backlog drops",
      count(service.backlog_drops),
      service.backlog_drops > 0,
      "decoding did not keep up",
    ),
    fact(
      "refused",
      count(service.refused_datagrams),
      service.refused_datagrams > 0,
      "from addresses outside the allow-list",
    ),
    fact(
      "late samples",
      count(service.late_samples),
      false,
      "came when the analysis had passed their time: stored, not analysed",
    ),
    fact(
      "rows not stored",
      count(service.rows_lost),
      service.rows_lost > 0,
      "the store could not write them",
    ),
  ];
}

function happened(answer) {
  const notes = allExporters(answer).flatMap((exporter) =>
    (exporter.notes ?? []).map((note) => ({ ...note, agent: exporter.agent })),
  );
  if (!notes.length) return null;
  notes.sort((a, b) => natural(b.time, a.time));
  return [
    el("h2", {}, "What happened"),
    el(
      "ul",
      { class: "plain notes" },
      notes
        .slice(0, MOST)
        .map((note) =>
          el(
            "li",
            {},
            el("span", { class: "soft" }, `${clock(note.time)} `),
            el("span", { class: "address" }, note.agent),
            ` ${note.text}`,
            note.count > 1 && el("span", { class: "soft" }, ` ${plural(note.count, "time")}`),
          ),
        ),
    ),
  ];
}

function unread(answer) {
  const errors = answer.telemetry?.errors ?? [];
  if (!errors.length) return null;
  return [
    el("h2", {}, "Not read"),
    el(
      "ul",
      { class: "plain" },
      errors
        .slice(0, MOST)
        .map((error) =>
          el(
            "li",
            {},
            el("span", { class: "address" }, error.exporter ?? error.file ?? "?"),
            ` ${error.reason}`,
            error.count > 1 && el("span", { class: "soft" }, ` ${plural(error.count, "time")}`),
          ),
        ),
    ),
  ];
}

export function exportersPage(root) {
  const facts = el("dl", { class: "facts" });
  const list = el("div", { class: "wide" });
  const notes = el("section", { class: "bare" });
  const errors = el("section", { class: "bare" });
  root.append(
    el("h1", { tabindex: -1 }, "Exporters"),
    el("section", {}, facts),
    el("section", {}, list),
    notes,
    errors,
  );
  const parts = [panel(facts, account), panel(list, table), panel(notes, happened), panel(errors, unread)];
  return {
    title: "Exporters",
    async refresh({ signal }) {
      const answer = await ask(`${API}/exporters`, signal);
      parts.forEach((show) => show(answer));
    },
  };
}
