// The list of jobs: the page an operator keeps open.

import { anomalyList } from "./anomalies.js";
import { candidates, confidence, sizes, status } from "./claims.js";
import { el, panel } from "./dom.js";
import { spark } from "./iterations.js";
import { missing } from "./missing.js";
import { API, ask, jobHref, jobPath } from "./service.js";
import { count, duration, moment, plural, plusMinus, sure } from "./units.js";

const MOST = 200;
const MOST_SPARKS = 40; // rows with a drawing of their own
const SPARK_LENGTH = 40; // iterations
const LIVE_FIRST = { hung: 0, training: 1, idle: 2, ended: 3 };

function ordered(jobs) {
  return [...jobs].sort((a, b) => (LIVE_FIRST[a.status] ?? 9) - (LIVE_FIRST[b.status] ?? 9));
}

function row(job, steps, anomalies, today) {
  const cell = (label, ...children) => el("td", { "data-label": label }, children);
  const { open, all } = job.anomalies;
  return el(
    "tr",
    { "data-key": job.id, class: job.status },
    el(
      "th",
      { scope: "row", "data-label": "job" },
      el("a", { class: "id", href: jobHref(job.id) }, job.id),
      job.name !== null && el("span", { class: "name" }, job.name),
      el("span", { class: "soft" }, job.user === null ? job.source : `${job.user}, ${job.source}`),
    ),
    cell("status", status(job.status)),
    cell(
      "size",
      el("span", {}, plural(job.hosts.length, "host")),
      el("span", { class: "soft" }, plural(job.endpoints.length, "endpoint")),
    ),
    cell(
      "period",
      job.period_s === null
        ? el("span", { class: "unknown" }, "?")
        : el(
            "b",
            {
              class: "figure",
              "data-tip": `period, sure ${sure(job.period_confidence)}`,
              tabindex: 0,
            },
            duration(job.period_s),
          ),
      el("span", { class: "soft" }, plusMinus(job.period_ci_s)),
    ),
    cell("sizes", sizes(job.parallelism), candidates(job.parallelism)),
    cell(
      "step times",
      spark(steps, anomalies),
      el("span", { class: "soft" }, plural(job.iterations, "iteration")),
    ),
    cell(
      "anomalies",
      open
        ? el("b", { class: "open" }, `${count(open)} open`)
        : el("span", { class: "soft" }, all ? "none open" : "none"),
      all > open && el("span", { class: "soft" }, `${count(all)} in all`),
    ),
    cell("sure", confidence(job.confidence)),
    cell(
      "since",
      el("span", { class: "when" }, moment(job.first_seen, today)),
      job.status === "ended" &&
        el("span", { class: "soft" }, `last ${moment(job.last_seen, today)}`),
    ),
  );
}

const HEADS = [
  "job",
  "status",
  "size",
  "period",
  "sizes",
  "step times",
  "anomalies",
  "sure",
  "since",
];

function table(jobs, steps, anomalies, today) {
  if (!jobs.length) return null;
  const shown = jobs.slice(0, MOST);
  return [
    el(
      "table",
      { class: "stacking jobs", "data-key": "jobs" },
      el("caption", { class: "hidden" }, "jobs"),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          HEADS.map((head) => el("th", { scope: "col" }, head)),
        ),
      ),
      el(
        "tbody",
        {},
        shown.map((job) =>
          row(
            job,
            steps.get(job.id) ?? [],
            anomalies.filter((a) => a.job === job.id),
            today,
          ),
        ),
      ),
    ),
    jobs.length > MOST &&
      el("p", { class: "soft" }, `${plural(jobs.length - MOST, "more job")} not shown.`),
  ];
}

function reasons(answer, unassigned) {
  if (!answer) return null;
  return [
    el("h2", {}, "No job is seen yet"),
    el(
      "ul",
      { class: "missing" },
      missing(answer, unassigned).map(({ what, remedy }) =>
        el("li", {}, el("b", {}, what), ` ${remedy}`),
      ),
    ),
    el(
      "p",
      {},
      el(
        "a",
        { href: "#/exporters" },
        `${plural(answer.telemetry?.exporters?.length ?? 0, "exporter")} in this window`,
      ),
    ),
  ];
}

export function jobsPage(root) {
  const none = el("div", { class: "none" });
  const list = el("div", { class: "wide" });
  const open = el("div", {});
  const openBlock = el("section", { hidden: true }, el("h2", {}, "Open anomalies"), open);
  const jobsBlock = el("section", { class: "flush" }, none, list);
  root.append(el("h1", { tabindex: -1, class: "hidden" }, "Jobs"), jobsBlock, openBlock);
  const show = {
    none: panel(none, reasons),
    list: panel(list, table),
    open: panel(open, (found, today) => anomalyList(found, { withJob: true, today })),
  };
  const steps = new Map(); // job id -> its newest iterations
  const marks = new Map(); // job id -> what they were asked for

  async function sparks(jobs, signal) {
    let changed = false;
    const one = async (job) => {
      const mark = `${job.iterations} ${job.last_iteration?.index}`;
      if (marks.get(job.id) === mark) return;
      const answer = await ask(
        jobPath(job.id, `/iterations?newest=true&limit=${SPARK_LENGTH}`),
        signal,
      );
      steps.set(job.id, answer.iterations);
      marks.set(job.id, mark);
      changed = true;
    };
    await Promise.all(jobs.slice(0, MOST_SPARKS).map(one));
    return changed;
  }

  return {
    title: "Jobs",
    async refresh({ signal, jobs, exporters }) {
      const found = ordered(jobs.jobs);
      const [anomalies] = await Promise.all([
        ask(`${API}/anomalies`, signal),
        sparks(found, signal),
      ]);
      const result = !found.length && exporters?.window ? await ask(`${API}/result`, signal) : null;
      show.none(found.length ? null : exporters, result?.unassigned);
      const today = exporters?.window?.end;
      show.list(found, steps, anomalies.anomalies, today);
      const live = anomalies.anomalies.filter((anomaly) => anomaly.end === null);
      openBlock.hidden = !live.length;
      show.open(live, today);
    },
  };
}
