// Anomalies: what is wrong, with whom, and why that is said.

import { confidence } from "./claims.js";
import { el, panel } from "./dom.js";
import { API, ask, jobHref } from "./service.js";
import { clock, count, moment, words } from "./units.js";

const MOST = 200;
const MARKS = { info: "●", warning: "▲", critical: "◆" };

// `today` leaves the date out of times of the same day.
export function anomalyList(anomalies, { withJob, today }) {
  if (!anomalies.length) return el("p", { class: "empty" }, "None.");
  const shown = anomalies.slice(0, MOST);
  const rest = anomalies.length - shown.length;
  return [
    el(
      "ol",
      { class: "anomalies", "data-key": "list" },
      shown.map((anomaly) => item(anomaly, withJob, today)),
    ),
    rest > 0 && el("p", { class: "soft" }, `${count(rest)} older ones are not shown.`),
  ];
}

function item(anomaly, withJob, today) {
  const open = anomaly.end === null;
  return el(
    "li",
    { class: `anomaly ${anomaly.severity}`, "data-key": `${anomaly.job ?? ""} ${anomaly.id}` },
    el(
      "p",
      { class: "head" },
      el(
        "span",
        { class: "severity" },
        el("span", { "aria-hidden": "true" }, `${MARKS[anomaly.severity] ?? "●"} `),
        anomaly.severity,
      ),
      el("b", {}, words(anomaly.kind)),
      withJob && anomaly.job && el("a", { href: jobHref(anomaly.job) }, anomaly.job),
      el(
        "span",
        { class: `verdict ${anomaly.verdict}`, "data-tip": VERDICTS[anomaly.verdict], tabindex: 0 },
        anomaly.verdict,
      ),
      el(
        "span",
        { class: "when" },
        `${moment(anomaly.start, today)} – ${open ? "" : clock(anomaly.end)}`,
        open && el("b", { class: "open" }, "open"),
      ),
      confidence(anomaly.confidence),
    ),
    el("p", { class: "summary" }, anomaly.summary),
    el(
      "p",
      { class: "subjects" },
      anomaly.subjects.map(({ type, id }) =>
        el("span", { class: "subject" }, el("span", { class: "soft" }, `${type} `), id),
      ),
    ),
    evidence(anomaly.evidence),
  );
}

const VERDICTS = {
  network: "the cause is in the network",
  host: "the cause is in a host",
  undecided: "whether network or host is at fault cannot be told",
};

function evidence(facts) {
  const entries = Object.entries(facts ?? {});
  if (!entries.length) return null;
  return el(
    "details",
    {},
    el("summary", {}, "evidence"),
    el(
      "dl",
      { class: "facts-list" },
      entries.map(([name, fact]) => [el("dt", {}, words(name)), el("dd", {}, said(fact))]),
    ),
  );
}

function said(fact) {
  if (fact === null) return "?";
  return typeof fact === "number" && !Number.isInteger(fact)
    ? String(Number(fact.toPrecision(4)))
    : String(fact);
}

export function anomaliesPage(root) {
  const list = el("div", {});
  root.append(el("h1", { tabindex: -1 }, "Anomalies"), el("section", {}, list));
  const show = panel(list, (answer, today) =>
    anomalyList(answer.anomalies, { withJob: true, today }),
  );
  return {
    title: "Anomalies",
    async refresh({ signal, exporters }) {
      const answer = await ask(`${API}/anomalies`, signal);
      show(answer, exporters?.window?.end);
    },
  };
}
