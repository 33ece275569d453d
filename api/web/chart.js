// Step time by index: a bar for each iteration.

import { el, svg } from "./dom.js";
import { described, slowOnes, stateOf, usualOf } from "./iterations.js";
import { clock, plainDuration } from "./units.js";

const HEIGHT = 190; // px
const MARGIN = { left: 56, right: 6, top: 16, bottom: 38 }; // px
const WIDEST_BAR = 22; // px, gap included
const SLIMMEST_BAR = 5;
const TALLEST = 3; // times the usual duration: longer bars are cut there, and say so
const TICK_EVERY = 96; // px between times

// How many bars a width of so many px holds.
function barsIn(width) {
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
  const inner = {
    width: width - MARGIN.left - MARGIN.right,
    height: HEIGHT - MARGIN.top - MARGIN.bottom,
  };
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
      svg("rect", {
        class: "body",
        x: x(nth) + gap / 2,
        y: high,
        width: slot - gap,
        height: Math.max(floor - high, 1),
      }),
      state === "slow" && svg("path", { class: "mark", d: `M${middle - 4} 4h8l-4 7z` }),
      it.duration_s > top &&
        svg("path", { class: "beyond", d: `M${x(nth)} ${high + 7}l${slot / 2} -4l${slot / 2} 4` }),
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
    usual &&
      svg("line", {
        class: "usual",
        x1: MARGIN.left,
        x2: width - MARGIN.right,
        y1: y(usual),
        y2: y(usual),
      }),
    bars,
    svg("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor }),
    ticks(shown, slot, x, floor),
  );
}

function scale(top, y, width) {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((wide) => wide >= rough);
  const lines = [];
  for (let at = step; at <= top * 1.001; at += step) {
    lines.push(
      svg("line", {
        class: "grid",
        x1: MARGIN.left,
        x2: width - MARGIN.right,
        y1: y(at),
        y2: y(at),
      }),
      svg(
        "text",
        { class: "tick", x: MARGIN.left - 8, y: y(at) + 4, "text-anchor": "end" },
        plainDuration(at),
      ),
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
      svg(
        "text",
        { class: "tick index", x: edge, y: floor + 17, "text-anchor": anchor },
        `#${shown[nth].index}`,
      ),
      svg(
        "text",
        { class: "tick", x: edge, y: floor + 31, "text-anchor": anchor },
        clock(shown[nth].start),
      ),
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
