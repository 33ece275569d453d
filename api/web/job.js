// One job: what it is, its iterations as they come, and how its ranks talk.

import { anomalyList } from "./anomalies.js";
import {
  KINDS,
  allClaims,
  candidates,
  claimLines,
  claimsTable,
  confidence,
  sizes,
  status,
} from "./claims.js";
import { chart, legend } from "./chart.js";
import { el, panel } from "./dom.js";
import { groupsView } from "./groups.js";
import { lastOnes } from "./iterations.js";
import { reportLinks } from "./reports.js";
import { API, ask, jobPath } from "./service.js";
import { bytes, clock, count, duration, listed, moment, plural, plusMinus } from "./units.js";

const STEPS = 240; // newest iterations that are asked for
const GRAPH_EVERY = 5; // turns between questions for groups and topology, which change slowly

function facts(job, steps, since, today) {
  const last = [...steps].reverse().find((it) => it.complete && it.final);
  const fact = (name, tip, ...said) =>
    el(
      "div",
      { "data-key": name, "data-tip": tip, tabindex: tip ? 0 : null },
      el("dt", {}, name),
      el("dd", {}, said),
    );
  const period = job.evidence.period;
  return [
    fact(
      "period",
      claimLines("period", period),
      job.period_s === null
        ? el("span", { class: "unknown" }, "?")
        : el("b", {}, duration(job.period_s)),
      el("small", {}, ` ${plusMinus(job.period_ci_s)}`),
    ),
    fact(
      "last iteration",
      null,
      last
        ? [
            el("b", {}, duration(last.duration_s)),
            el("small", {}, ` #${last.index}, ended ${clock(last.end)}`),
          ]
        : el("span", { class: "unknown" }, "?"),
    ),
    el(
      "div",
      { "data-key": "sizes", class: "with-chips" },
      el("dt", {}, "sizes"),
      el("dd", {}, sizes(job.parallelism), candidates(job.parallelism)),
    ),
    fact(
      "hosts",
      null,
      el("b", {}, count(job.hosts.length)),
      el("small", {}, ` ${plural(job.endpoints.length, "endpoint")}`),
    ),
    fact("sure", allClaims(job.evidence), confidence(job.confidence)),
    fact("since", null, moment(job.started_at ?? since, today)),
  ];
}

function heading(job) {
  return [
    el("h1", { tabindex: -1 }, job.id),
    job.name !== null && el("span", { class: "name" }, job.name),
    status(job.status),
    el("span", { class: "soft" }, [job.user, job.source].filter(Boolean).join(", ")),
    job.ended_at && el("span", { class: "soft" }, `ended ${moment(job.ended_at)}`),
  ];
}

function unknowns(job) {
  const reasons = new Map();
  const note = (what, why) => reasons.set(why, [...(reasons.get(why) ?? []), what]);
  if (job.period_s === null) note("period", job.evidence?.period?.basis ?? "no reason given");
  for (const kind of KINDS) {
    if (job.parallelism[kind] === null)
      note(kind, job.parallelism.basis?.[kind] ?? "no reason given");
  }
  for (const group of job.groups) {
    for (const statement of ["kind", "algorithm", "collective"]) {
      if (group[statement] === "unknown")
        note(
          `${statement} of ${group.id}`,
          group.evidence?.[statement]?.basis ?? "no reason given",
        );
    }
  }
  const lines = [...reasons].map(([why, names]) => [listed(names, 6), why]);
  const all = [...lines, ...job.contradictions.map((text) => ["contradiction", text])];
  if (!all.length) return el("p", { class: "empty" }, "Nothing is left open.");
  return el(
    "dl",
    { class: "facts-list" },
    all.map(([what, why]) => [el("dt", {}, what), el("dd", {}, why)]),
  );
}

const HINTS = {
  gradient_bytes: ["gradients of a stage's replica", bytes],
  micro_batches: ["micro-batches an iteration", count],
  pipeline_message_bytes: ["a NIC to the next stage, each micro-batch", bytes],
  pipeline_bubble: ["stages wait for others", (share) => `${(share * 100).toPrecision(2)} %`],
};

// Guesses at what the job trains, a row each; nothing where there are none.
function hintsTable(hints) {
  const known = Object.entries(hints).filter(([name]) => name in HINTS);
  const said = known.map(([name, hint]) => {
    const [what, unit] = HINTS[name];
    const [low, high] = [unit(hint.low), unit(hint.high)];
    return [`${what}: ${low === high ? low : `${low} to ${high}`}`, hint];
  });
  return said.length > 0 && claimsTable(Object.fromEntries(said), "what it hints at");
}

function about(job) {
  return [
    claimsTable(job.evidence, "what the job itself rests on"),
    hintsTable(job.hints ?? {}),
    el(
      "details",
      {},
      el("summary", {}, plural(job.hosts.length, "host")),
      el("p", { class: "names" }, job.hosts.join(", ")),
    ),
    el(
      "details",
      {},
      el("summary", {}, plural(job.endpoints.length, "endpoint")),
      el("p", { class: "names address" }, job.endpoints.join(", ")),
    ),
  ];
}

const block = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

export function jobPage(root, id) {
  const at = Object.fromEntries(
    ["heading", "facts", "chart", "steps", "anomalies", "unknowns", "about", "reports"].map(
      (name) => [name, el("div", {})],
    ),
  );
  at.heading.className = "heading";
  at.chart.className = "wide";
  at.steps.className = "wide";
  at.about.className = "wide";
  const factsList = el("dl", { class: "facts" });
  const groups = groupsView();
  const chartBlock = block("Iterations", legend(), at.chart);
  chartBlock.classList.add("charted");
  root.append(
    at.heading,
    el("section", {}, factsList),
    chartBlock,
    el("section", { class: "grouped" }, groups.node),
    el(
      "div",
      { class: "columns" },
      block("Last ten iterations", at.steps),
      block("Anomalies", at.anomalies),
    ),
    el(
      "div",
      { class: "columns" },
      block("Not known, and why", at.unknowns),
      block("Evidence", at.about, at.reports),
    ),
  );
  const show = {
    heading: panel(at.heading, heading),
    facts: panel(factsList, facts),
    chart: panel(at.chart, chart),
    steps: panel(at.steps, lastOnes),
    anomalies: panel(at.anomalies, (found, day) =>
      anomalyList(found, { withJob: false, today: day }),
    ),
    unknowns: panel(at.unknowns, unknowns),
    about: panel(at.about, about),
    reports: panel(at.reports, reportLinks),
  };
  let job, topology, steps, anomalies, reports, since, today;

  const draw = () => {
    if (!job) return;
    show.facts(job, steps, since, today);
    show.chart(steps, anomalies, Math.max(280, Math.floor(at.chart.clientWidth)));
    show.steps(steps, anomalies);
  };
  const resized = new ResizeObserver(draw);
  resized.observe(at.chart);

  return {
    title: id,
    async refresh({ signal, turn, jobs, exporters }) {
      const slow = !job || turn % GRAPH_EVERY === 0;
      const [newest, found, document_, links, stored] = await Promise.all([
        ask(jobPath(id, `/iterations?newest=true&limit=${STEPS}`), signal),
        ask(jobPath(id, "/anomalies"), signal),
        slow ? ask(jobPath(id), signal) : job,
        slow ? ask(jobPath(id, "/topology"), signal) : topology,
        slow ? ask(`${API}/reports`, signal) : null,
      ]);
      [job, topology, steps, anomalies, today] = [
        document_,
        links,
        newest.iterations,
        found.anomalies,
        exporters?.window?.end,
      ];
      const summary = jobs.jobs.find((one) => one.id === id);
      since = summary?.first_seen ?? null;
      show.heading({ ...job, status: summary?.status ?? job.status });
      draw();
      groups.show(job, topology);
      show.anomalies(anomalies, today);
      show.unknowns(job);
      show.about(job);
      if (stored) reports = stored.reports.filter((report) => report.job === id);
      show.reports(reports, today);
    },
    close() {
      resized.disconnect();
    },
  };
}
