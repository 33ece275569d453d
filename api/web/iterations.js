// Iterations: what each one is, their spark in a list, and the last ones as a table.

import { el, svg } from "./dom.js";
import { bytes, clock, duration, median } from "./units.js";

const TALLEST = 3; // times the usual duration: longer ones are cut there
const SPARK = { width: 132, height: 26 };
const LAST = 10;

// What an iteration is: "slow", "final", "provisional" or "cut" (by the window or a gap).
export function stateOf(iteration, slow) {
  if (!iteration.complete) return "cut";
  if (slow.has(iteration.index)) return "slow";
  return iteration.final ? "final" : "provisional";
}

// Indices of iterations that an anomaly calls slow: those whose middle it covers.
export function slowOnes(iterations, anomalies) {
  const spans = anomalies
    .filter((anomaly) => anomaly.kind === "slow_iteration")
    .map(({ start, end }) => [Date.parse(start), end === null ? Infinity : Date.parse(end)]);
  const slow = new Set();
  for (const { index, start, end } of iterations) {
    const middle = (Date.parse(start) + Date.parse(end)) / 2;
    if (spans.some(([from, to]) => from <= middle && middle < to)) slow.add(index);
  }
  return slow;
}

// Median duration of the complete ones, in seconds; null without one.
export function usualOf(iterations) {
  return median(iterations.filter((it) => it.complete).map((it) => it.duration_s));
}

// One iteration as the lines of a tooltip.
export function described(iteration, state, usual) {
  const off = usual && iteration.complete ? iteration.duration_s / usual - 1 : null;
  const share = off === null ? "" : `, ${percent(off)} of the usual`;
  return [
    `iteration ${iteration.index}: ${duration(iteration.duration_s)}${share}`,
    `${clock(iteration.start, 3)} to ${clock(iteration.end, 3)}`,
    iteration.bytes === null ? "bytes not known" : bytes(iteration.bytes),
    {
      slow: "slow",
      final: "final",
      provisional: "provisional: may still move",
      cut: "cut: its length is not known",
    }[state],
  ].join("\n");
}

function percent(share) {
  const digits = (Math.abs(share) * 100).toFixed(1);
  return `${share < 0 && Number(digits) ? "−" : "+"}${digits} %`;
}

// Step times of the newest iterations as a line a few letters high; slow ones are dots.
export function spark(iterations, anomalies = []) {
  const known = iterations.filter((it) => it.complete);
  if (known.length < 2) return el("span", { class: "soft" }, "not yet");
  const usual = usualOf(known);
  const times = known.map((it) => it.duration_s);
  // A tenth each way at the least: what is steady shall look steady.
  const low = Math.min(...times, usual * 0.9);
  const high = Math.min(Math.max(...times, usual * 1.1), usual * TALLEST);
  const step = (SPARK.width - 6) / (known.length - 1);
  const x = (nth) => (3 + nth * step).toFixed(1);
  const y = (s) =>
    (3 + (SPARK.height - 6) * (1 - (Math.min(s, high) - low) / (high - low))).toFixed(1);
  const slow = slowOnes(known, anomalies);
  const range = `${duration(Math.min(...times))} to ${duration(Math.max(...times))}`;
  const label = `step times of the last ${known.length} iterations: ${range}`;
  return svg(
    "svg",
    {
      class: "spark",
      width: SPARK.width,
      height: SPARK.height,
      viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
      role: "img",
      "aria-label": label,
      "data-tip": label,
    },
    svg("line", { class: "usual", x1: 0, x2: SPARK.width, y1: y(usual), y2: y(usual) }),
    svg("polyline", {
      class: "trace",
      points: times.map((s, nth) => `${x(nth)},${y(s)}`).join(" "),
    }),
    known.map(
      (it, nth) =>
        slow.has(it.index) &&
        svg("circle", { class: "slow", cx: x(nth), cy: y(times[nth]), r: 2.6 }),
    ),
    svg("circle", { class: "newest", cx: x(times.length - 1), cy: y(times.at(-1)), r: 2.2 }),
  );
}

// The last ten, the newest first.
export function lastOnes(iterations, anomalies) {
  const shown = iterations.slice(-LAST);
  const slow = slowOnes(shown, anomalies);
  const usual = usualOf(iterations);
  const rows = [...shown].reverse().map((it) => {
    const state = stateOf(it, slow);
    const off = usual && it.complete ? percent(it.duration_s / usual - 1) : "";
    return el(
      "tr",
      { "data-key": it.index, class: state },
      el("th", { scope: "row", class: "number" }, it.index),
      el("td", { class: "number" }, clock(it.start, 3)),
      el(
        "td",
        { class: "number" },
        it.complete ? duration(it.duration_s) : `> ${duration(it.duration_s)}`,
      ),
      el("td", { class: "number soft" }, off),
      el(
        "td",
        { class: "number" },
        it.bytes === null ? el("span", { class: "unknown" }, "?") : bytes(it.bytes),
      ),
      el("td", {}, el("i", { class: `swatch ${state}`, "aria-hidden": "true" }), state),
    );
  });
  return el(
    "table",
    { class: "steps" },
    el("caption", { class: "hidden" }, "the last ten iterations, newest first"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["index", "start", "duration", "off median", "bytes"].map((head) =>
          el("th", { scope: "col", class: "number" }, head),
        ),
        el("th", { scope: "col" }, "state"),
      ),
    ),
    el("tbody", {}, rows),
  );
}
