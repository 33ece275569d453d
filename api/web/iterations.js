// Step times: the spark of a list, the chart and the last ones of a job.

import { el, svg } from "./dom.js";
import { bytes, clock, duration, median } from "./units.js";

const HEIGHT = 190; // px of the chart
const MARGIN = { left: 56, right: 6, top: 16, bottom: 38 }; // px
const WIDEST_BAR = 22; // px, gap included
const SLIMMEST_BAR = 5;
const TALLEST = 3; // times the usual duration: longer bars are cut there, and say so
const TICK_EVERY = 96; // px between times
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

function usualOf(iterations) {
  return median(iterations.filter((it) => it.complete).map((it) => it.duration_s));
}

function described(iteration, state, usual) {
  const off = usual && iteration.complete ? iteration.duration_s / usual - 1 : null;
  const share = off === null ? "" : `, ${percent(off)} of the usual`;
  return [
    `iteration ${iteration.index}: ${duration(iteration.duration_s)}${share}`,
    `${clock(iteration.start, 3)} to ${clock(iteration.end, 3)}`,
    iteration.bytes === null ? "bytes not known" : bytes(iteration.bytes),
    { slow: "slow", final: "final", provisional: "provisional: may still move", cut: "cut: its length is not known" }[
      state
    ],
  ].join("\n");
}

function percent(share) {
  return `${share >= 0 ? "+" : "−"}${(Math.abs(share) * 100).toFixed(1)} %`;
}

// How many bars a width of so many px holds.
export function barsIn(width) {
  return Math.max(8, Math.floor((width - MARGIN.left - MARGIN.right) / SLIMMEST_BAR));
}

// Step time by index, the newest at the right.
export function chart(iterations, anomalies, width) {
  if (!iterations.length) return el("p", { class: "empty" }, "No iteration is complete yet.");
  const shown = iterations.slice(-barsIn(width));
  const slow = slowOnes(shown, anomalies);
  const usual = usualOf(shown);
  const longest = Math.max(...shown.map((it) => it.duration_s));
  const top = usual ? Math.min(Math.max(longest, usual * 1.25), usual * TALLEST) : longest || 1;
  const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const slot = Math.min(inner.width / shown.length, WIDEST_BAR);
  const x = (nth) => width - MARGIN.right - (shown.length - nth) * slot;
  const y = (seconds) => MARGIN.top + inner.height * (1 - Math.min(seconds, top) / top);
  const floor = y(0);
  const bars = shown.map((it, nth) => {
    const state = stateOf(it, slow);
    const middle = x(nth) + slot / 2;
    const high = y(it.duration_s);
    const gap = slot > 8 ? 2 : 1;
    return svg(
      "g",
      {
        class: `bar ${state}`,
        "data-key": it.index,
        "data-index": it.index,
        "data-tip": described(it, state, usual),
        role: "img",
        "aria-label": described(it, state, usual).replaceAll("\n", ", "),
        tabindex: nth === shown.length - 1 ? 0 : -1,
      },
      svg("rect", { class: "reach", x: x(nth), y: MARGIN.top, width: slot, height: inner.height }),
      svg("rect", { class: "body", x: x(nth) + gap / 2, y: high, width: slot - gap, height: Math.max(floor - high, 1) }),
      state === "slow" && svg("path", { class: "mark", d: `M${middle - 4} 4h8l-4 7z` }),
      it.duration_s > top && svg("path", { class: "beyond", d: `M${x(nth)} ${high + 7}l${slot / 2} -4l${slot / 2} 4` }),
    );
  });
  return svg(
    "svg",
    {
      class: "chart",
      width,
      height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}`,
      role: "group",
      "data-arrows": true,
      "aria-label": `step time of ${shown.length} iterations, newest at the right; arrow keys move among them`,
    },
    scale(top, y, width),
    usual && svg("line", { class: "usual", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(usual), y2: y(usual) }),
    bars,
    svg("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor }),
    ticks(shown, slot, x, floor),
  );
}

function scale(top, y, width) {
  const rough = top / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((wide) => wide >= rough);
  const lines = [];
  for (let at = step; at <= top * 1.001; at += step) {
    lines.push(
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(at), y2: y(at) }),
      svg("text", { class: "tick", x: MARGIN.left - 8, y: y(at) + 4, "text-anchor": "end" }, duration(at)),
    );
  }
  return lines;
}

// Index and time below every so many bars, counted from the newest.
function ticks(shown, slot, x, floor) {
  const every = Math.max(1, Math.ceil(TICK_EVERY / slot));
  const made = [];
  for (let nth = shown.length - 1; nth >= 0; nth -= every) {
    const at = x(nth) + slot / 2;
    if (at < MARGIN.left + 20) break;
    const anchor = nth === shown.length - 1 ? "end" : "middle";
    const edge = anchor === "end" ? x(nth) + slot : at;
    made.push(
      svg("line", { class: "axis", x1: at, x2: at, y1: floor, y2: floor + 4 }),
      svg("text", { class: "tick index", x: edge, y: floor + 17, "text-anchor": anchor }, `#${shown[nth].index}`),
      svg("text", { class: "tick", x: edge, y: floor + 31, "text-anchor": anchor }, clock(shown[nth].start)),
    );
  }
  return made;
}

export function legend() {
  const entry = (state, text) => el("span", {}, el("i", { class: `swatch ${state}` }), text);
  return el(
    "p",
    { class: "legend", "aria-hidden": "true" },
    entry("final", "final"),
    entry("provisional", "provisional"),
    entry("slow", "slow"),
    entry("cut", "cut"),
    entry("line", "median"),
  );
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
  const y = (s) => (3 + (SPARK.height - 6) * (1 - (Math.min(s, high) - low) / (high - low))).toFixed(1);
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
    svg("polyline", { class: "trace", points: times.map((s, nth) => `${x(nth)},${y(s)}`).join(" ") }),
    known.map((it, nth) => slow.has(it.index) && svg("circle", { class: "slow", cx: x(nth), cy: y(times[nth]), r: 2.6 })),
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
      el("td", { class: "number" }, it.complete ? duration(it.duration_s) : `> ${duration(it.duration_s)}`),
      el("td", { class: "number soft" }, off),
      el("td", { class: "number" }, it.bytes === null ? el("span", { class: "unknown" }, "?") : bytes(it.bytes)),
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
        ["index", "start", "duration", "off median", "bytes"].map((head) => el("th", { scope: "col", class: "number" }, head)),
        el("th", { scope: "col" }, "state"),
      ),
    ),
    el("tbody", {}, rows),
  );
}
