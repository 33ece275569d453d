// How sure a statement is, and what it rests on: marks, size chips and lists of evidence.

import { el, svg } from "./dom.js";
import { count, plural, sure, words } from "./units.js";

export const KINDS = ["dp", "tp", "pp", "cp", "ep"];
const NO_REASON = "no reason given";
const GAUGE = { width: 32, height: 4 }; // px

// A small gauge with its number.
export function confidence(value, tip = null) {
  const share = Math.max(0, Math.min(1, value ?? 0));
  const bar = (name, width) =>
    svg("rect", { class: name, width, height: GAUGE.height, rx: GAUGE.height / 2 });
  const gauge = svg(
    "svg",
    { class: "gauge", ...GAUGE, "aria-hidden": "true" },
    bar("whole", GAUGE.width),
    bar("part", GAUGE.width * share),
  );
  return el(
    "span",
    { class: "sure", "data-tip": tip, tabindex: tip ? 0 : null },
    gauge,
    sure(value),
  );
}

// A claim as the lines of a tooltip.
export function claimLines(name, claim) {
  return claim
    ? `${words(name)}: sure ${sure(claim.confidence)}, ${plural(claim.samples, "sample")}\n${claim.basis}`
    : `${words(name)}: ${NO_REASON}`;
}

export function allClaims(evidence) {
  return Object.entries(evidence ?? {})
    .map(([name, claim]) => claimLines(name, claim))
    .join("\n");
}

// Evidence as a table: one row per statement.
export function claimsTable(evidence, caption) {
  const rows = Object.entries(evidence ?? {}).map(([name, claim]) =>
    el(
      "tr",
      { "data-key": name },
      el("th", { scope: "row" }, words(name)),
      el("td", {}, confidence(claim.confidence)),
      el("td", { class: "number" }, count(claim.samples)),
      el("td", {}, claim.basis),
    ),
  );
  if (!rows.length) return el("p", { class: "soft" }, NO_REASON);
  const heads = ["what", "sure", "samples", "basis"].map((head) =>
    el("th", { scope: "col", class: head === "samples" ? "number" : null }, head),
  );
  return el(
    "table",
    { class: "claims" },
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads)),
    el("tbody", {}, rows),
  );
}

// Sizes of the parallel dimensions; what is not known looks so.
export function sizes(parallelism) {
  const chips = KINDS.map((kind) => {
    const size = parallelism[kind];
    const look = size === null ? "unknown" : size === 1 ? "one" : kind;
    const said = size === null ? "not known" : size === 1 ? "1: none" : String(size);
    const basis = parallelism.basis?.[kind] ?? NO_REASON;
    return el(
      "span",
      {
        class: `size ${look}`,
        "data-key": kind,
        tabindex: 0,
        "data-tip": `${kind} ${said}, sizes sure ${sure(parallelism.confidence)}\n${basis}`,
      },
      `${kind} `,
      el("b", {}, size === null ? "?" : size),
    );
  });
  return el("span", { class: "sizes" }, chips);
}

const MOST_CANDIDATES = 40;

// The sizes that the wire cannot tell apart, folded away; nothing where there is but one.
export function candidates(parallelism) {
  const found = parallelism.candidates ?? [];
  if (found.length < 2) return null;
  const lines = found
    .slice(0, MOST_CANDIDATES)
    .map((candidate) => el("li", {}, sizesLine(candidate)));
  const rest = found.length - lines.length;
  return el(
    "details",
    { class: "candidates" },
    el("summary", {}, `${found.length} candidates`),
    el("ul", {}, lines, rest > 0 && el("li", { class: "soft" }, `${rest} more`)),
  );
}

// "dp 8 tp 2 pp 4"; sizes of 1 are left out.
function sizesLine(candidate) {
  const named = KINDS.filter((kind) => (candidate[kind] ?? 1) > 1).map(
    (kind) => `${kind} ${candidate[kind]}`,
  );
  return named.join(" ") || "one GPU";
}

// A state as a word beside a mark, so that colour is not all there is.
export function status(state) {
  return el(
    "span",
    { class: `status ${state}` },
    el("span", { class: "lamp", "aria-hidden": "true" }),
    state,
  );
}
