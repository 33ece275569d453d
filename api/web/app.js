// The page: which view is open, when the service is asked again, and whether it answers.

import { anomaliesPage } from "./anomalies.js";
import { el, panel } from "./dom.js";
import { exportersPage } from "./exporters.js";
import { jobPage } from "./job.js";
import { jobsPage } from "./jobs.js";
import { API, NoAnswer, Problem, ask } from "./service.js";
import { tidyTip } from "./tips.js";
import { clock, duration } from "./units.js";

const EVERY_MS = 2000;
const EXPORTERS_EVERY = 5; // turns; each one where a page needs it
const LAGGING_S = 30;

const main = document.getElementById("main");
const lamp = document.getElementById("state");
const lampText = document.getElementById("state-text");
const showTrouble = panel(document.getElementById("trouble"), (lines) =>
  lines.map((line) => el("p", {}, line)),
);

let page = null; // {name, view, ending}
let turn = 0;
let exporters = null;
let health = null;
let answeredAt = null; // RFC 3339, by this browser's clock
let wake = () => {};

// "#/jobs/job-3" -> {name: "job", id: "job-3"}
function route() {
  const [, name, ...rest] = location.hash.split("/");
  if (name === "jobs" && rest[0]) return { name: "job", id: decoded(rest.join("/")), nav: "jobs" };
  return { name: ["anomalies", "exporters"].includes(name) ? name : "jobs", id: null };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const PAGES = { jobs: jobsPage, job: jobPage, anomalies: anomaliesPage, exporters: exportersPage };

function open() {
  page?.ending.abort();
  page?.view.close?.();
  const { name, id, nav } = route();
  const root = el("div", { class: `page page-${name}` });
  const view = PAGES[name](root, id);
  const first = page === null;
  page = { name, view, ending: new AbortController(), root };
  main.replaceChildren(root);
  document.title = `${view.title} · ringscope`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.page === (nav ?? name);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!first) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  turn = 0;
}

async function refresh({ view, ending, name }) {
  const { signal } = ending;
  const often = name === "exporters" || !exporters || turn % EXPORTERS_EVERY === 0;
  const [jobs, heard, checks] = await Promise.all([
    ask(`${API}/jobs`, signal),
    often ? ask(`${API}/exporters`, signal) : exporters,
    often ? readiness(signal) : health,
  ]);
  [exporters, health] = [heard, checks];
  // Without a job, what is missing may change at any moment.
  if (!jobs.jobs.length && !often) exporters = await ask(`${API}/exporters`, signal);
  counts(jobs.jobs);
  await view.refresh({ signal, turn, jobs, exporters });
}

// Which checks fail; a service that has none is ready.
async function readiness(signal) {
  try {
    return await ask("/readyz", signal);
  } catch (error) {
    if (error instanceof Problem) return error.status === 503 ? error.body : null;
    throw error;
  }
}

function counts(jobs) {
  const open_ = jobs.reduce((sum, job) => sum + job.anomalies.open, 0);
  document.getElementById("count-jobs").textContent = jobs.length;
  document.getElementById("count-anomalies").textContent = open_ || "";
  document.getElementById("count-exporters").textContent =
    exporters?.telemetry?.exporters?.length || exporters?.service?.exporters?.length || "";
}

function say(state, text, lines) {
  lamp.className = state;
  if (lampText.textContent !== text) lampText.textContent = text;
  main.classList.toggle("stale", state === "silent" && answeredAt !== null);
  const key = lines.join("\n");
  if (say.shown !== key) showTrouble(lines);
  say.shown = key;
}

function sayLive() {
  const failing = (health?.checks ?? [])
    .filter((check) => !check.ok)
    .map((check) => `${check.name} does not work: ${check.reason}`);
  const lag = exporters?.service?.analysis_lag_s ?? 0;
  const end = exporters?.window?.end;
  if (failing.length) say("failing", "answers, but something fails", failing);
  else if (lag > LAGGING_S) say("late", `analysis is ${duration(Math.round(lag))} behind`, []);
  else say("live", end ? `live, window to ${clock(end)}` : "live", []);
}

function sayError(error) {
  const since = answeredAt ? ` What you see is from ${clock(answeredAt)} (your clock, UTC).` : "";
  if (error instanceof NoAnswer) {
    say("silent", "no answer", [
      `The service does not answer (${error.message}).${since} Asking again every ${EVERY_MS / 1000} seconds.`,
    ]);
  } else if (error instanceof Problem && error.status === 404) {
    say("live", "live", [`${error.message}.`]);
  } else if (error instanceof Problem) {
    say("silent", `error ${error.status}`, [
      `The service answers with error ${error.status}: ${error.message}.${since}`,
    ]);
  } else {
    say("silent", "error", [`This page cannot show what came: ${error.message}.`]);
  }
}

async function loop() {
  for (;;) {
    const asked = page;
    try {
      await refresh(asked);
      answeredAt = new Date().toISOString();
      sayLive();
    } catch (error) {
      if (asked.ending.signal.aborted) continue;
      sayError(error);
    }
    tidyTip();
    turn += 1;
    if (asked === page) await pause();
  }
}

// Until the next turn is due, a view opens, or a hidden page is seen again.
function pause() {
  return new Promise((resolve) => {
    wake = resolve;
    if (!document.hidden) setTimeout(resolve, EVERY_MS);
  });
}

addEventListener("hashchange", () => {
  open();
  wake();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) say("paused", "paused", []);
  else wake();
});

open();
loop();
