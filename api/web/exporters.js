// Exporters: who sends samples, at which rate, by whose clock, and what got lost.

import { el, panel } from "./dom.js";
import { API, ask } from "./service.js";
import { clock, count, duration, natural, plural, words } from "./units.js";

const MOST = 500;
const BASES = {
  exporter: "samples carry the exporter's time (sFlow 0:1043)",
  interpolated: "times are placed between those of the exporter's datagrams",
  arrival: "times are those of arrival here: iteration ends are less exact",
};
const STATES = {
  ok: "flow samples of known rate come",
  counters_only: "it sends counters, but no flow samples: sampling is off",
  rate_unknown:
    "its samples do not say how densely they were taken: volumes by count are not known",
  silent: "it was heard since the service started, but not in this window",
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
    el("td", { "data-label": "flow samples", class: "number" }, count(exporter.flow_samples)),
    el("td", { "data-label": "counters", class: "number" }, count(exporter.counter_samples)),
    el("td", { "data-label": "datagrams", class: "number" }, count(exporter.datagrams)),
    el("td", { "data-label": "lost", class: `number ${lost ? "bad" : "soft"}` }, count(lost)),
    el("td", { "data-label": "errors", class: `number ${errors ? "bad" : "soft"}` }, count(errors)),
    el("td", { "data-label": "protocol", class: "soft" }, exporter.protocol),
  );
}

const HEADS = [
  "exporter",
  "state",
  "rates",
  "time basis",
  "flow samples",
  "counters",
  "datagrams",
  "lost",
  "errors",
  "protocol",
];
const WORDY = new Set(["exporter", "state", "time basis", "protocol"]);

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
  const errors = el("section", { class: "bare" });
  root.append(
    el("h1", { tabindex: -1 }, "Exporters"),
    el("section", {}, facts),
    el("section", {}, list),
    errors,
  );
  const parts = [panel(facts, account), panel(list, table), panel(errors, unread)];
  return {
    title: "Exporters",
    async refresh({ signal }) {
      const answer = await ask(`${API}/exporters`, signal);
      parts.forEach((show) => show(answer));
    },
  };
}
