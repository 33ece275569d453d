// The groups of a job: a list to choose from, the drawing of what is chosen, and its evidence.

import { claimsTable } from "./claims.js";
import { el, panel } from "./dom.js";
import { chainRows, circleFigure, jobMap, treeFigures } from "./graph.js";
import { factsOf } from "./graphtips.js";
import { blocksOf, hostRows, linksOf } from "./picture.js";
import { bytes, listed, plural, sure, words } from "./units.js";

const MOST_FIGURES = 36;
const MOST_ROWS = 64;
const MAP = "map";

function choice(key, chosen, ...children) {
  return el(
    "button",
    {
      type: "button",
      role: "tab",
      "data-key": key,
      "data-choose": key,
      "aria-selected": String(chosen),
      tabindex: chosen ? 0 : -1,
    },
    children,
  );
}

function choices(blocks, chosen) {
  return [
    choice(MAP, chosen === MAP, el("span", { class: "tag" }, "all"), el("b", {}, "map of the job")),
    blocks.map((block) => {
      return choice(
        block.key,
        chosen === block.key,
        el("span", { class: `tag ${block.kind}` }, block.kind === "unknown" ? "?" : block.kind),
        el("b", {}, words(block.algorithm)),
        el(
          "span",
          { class: "what" },
          block.variant && block.variant !== block.algorithm
            ? `${words(block.variant)}, ${words(block.collective)}`
            : words(block.collective),
        ),
        el(
          "span",
          { class: "soft" },
          `${plural(block.groups.length, "group")} of ${block.size}${folded(block)}`,
        ),
        el(
          "span",
          { class: "soft" },
          `${bytes(block.bytes)} an iteration${block.groups.length > 1 ? " each" : ""}`,
        ),
      );
    }),
  ];
}

// "(4 on 2 rails each)", where all drawings stand for equally many groups.
function folded({ shapes }) {
  const rails = shapes[0].groups.length;
  if (rails === 1 || shapes.some((shape) => shape.groups.length !== rails)) return "";
  return shapes.length === 1
    ? ` (on ${rails} rails)`
    : ` (${shapes.length} on ${rails} rails each)`;
}

function figure(shape, alone, ...drawing) {
  const rails = shape.groups.length;
  const ids = shape.groups.map((group) => group.id);
  const least = Math.min(...shape.groups.map((group) => group.confidence));
  const caption = listed(ids, 4);
  return el(
    "figure",
    { "data-key": shape.key },
    el("div", { class: "wide" }, drawing),
    el(
      "figcaption",
      {},
      el(
        "button",
        {
          type: "button",
          "data-shape": shape.key,
          "aria-pressed": String(alone),
          title: alone ? "show all of its kind" : "show this one alone",
        },
        caption,
      ),
      rails > 1 && el("b", { class: "folded" }, ` ×${rails} rails`),
      el(
        "span",
        { class: "soft" },
        ` ${bytes(shape.groups[0].bytes_per_iteration)} an iteration`,
        `${rails > 1 ? " each" : ""}, sure ${sure(least)}`,
      ),
    ),
  );
}

function drawing(block, shape, facts) {
  const shapes = shape ? [shape] : block.shapes;
  if (block.algorithm === "chain") {
    const shown = shapes.slice(0, MOST_ROWS);
    return [el("div", { class: "wide" }, chainRows(shown, facts)), rest(shapes, shown)];
  }
  const shown = shapes.slice(0, MOST_FIGURES);
  const large = shown.length === 1;
  const figures = shown.map((one) => {
    const trees = block.algorithm === "tree" && one.trees.length > 0;
    return figure(
      one,
      Boolean(shape),
      trees ? treeFigures(one, facts) : circleFigure(one, facts, large),
    );
  });
  return [el("div", { class: "figures" }, figures), rest(shapes, shown)];
}

function rest(all, shown) {
  return (
    all.length > shown.length &&
    el("p", { class: "soft" }, `${plural(all.length - shown.length, "more drawing")} not shown.`)
  );
}

function evidence(block, shape) {
  const groups = shape ? shape.groups : block.groups;
  const least = groups.reduce((a, b) => (b.confidence < a.confidence ? b : a));
  const which = groups.length > 1 ? `, the least sure of ${groups.length}` : "";
  return claimsTable(least.evidence, `What ${least.id} rests on${which}`);
}

function mapLegend(blocks, job) {
  const kinds = [...new Set(blocks.map((block) => block.kind))];
  return el(
    "p",
    { class: "legend" },
    kinds.map((kind) =>
      el(
        "span",
        {},
        el("i", { class: `swatch edge-${kind}` }),
        kind === "unknown" ? "kind not known" : kind,
      ),
    ),
    el(
      "span",
      { class: "soft" },
      `${plural(job.hosts.length, "host")}; edges of all rails are one line, an arrow means one way only`,
    ),
  );
}

export function groupsView() {
  const tabs = el("div", {
    class: "tabs",
    role: "tablist",
    "aria-label": "groups",
    "data-arrows": true,
  });
  const stage = el("div", { class: "stage", role: "tabpanel", "aria-label": "drawing" });
  const basis = el("div", { class: "basis wide" });
  const node = el(
    "div",
    { class: "groups" },
    el("div", {}, el("h2", {}, "How the ranks talk"), tabs),
    stage,
    basis,
  );
  let chosen = null; // key of a block, or MAP
  let shape = null; // key of a shape, or null for all of them
  let current = null;

  const showTabs = panel(tabs, choices);
  const showStage = panel(stage, ({ blocks, facts, rows, links, job }, block, one) =>
    block
      ? drawing(block, one, facts)
      : [mapLegend(blocks, job), el("div", { class: "wide" }, jobMap(rows, links, facts))],
  );
  const showBasis = panel(basis, (block, one) => (block ? evidence(block, one) : null));

  const draw = () => {
    const { blocks } = current;
    if (chosen !== MAP && !blocks.some((block) => block.key === chosen)) {
      // One block is all there is to see; several are seen together first.
      chosen = blocks.length === 1 ? blocks[0].key : MAP;
      shape = null;
    }
    const block = blocks.find(({ key }) => key === chosen) ?? null;
    const one = block?.shapes.find(({ key }) => key === shape) ?? null;
    showTabs(blocks, chosen);
    showStage(current, block, one);
    showBasis(block, one);
  };
  node.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.choose !== undefined) [chosen, shape] = [button.dataset.choose, null];
    if (button.dataset.shape !== undefined)
      shape = shape === button.dataset.shape ? null : button.dataset.shape;
    draw();
  });

  return {
    node,
    show(job, topology) {
      if (current?.job === job && current.topology === topology) return;
      const facts = factsOf(topology, job.groups);
      const { hostOf } = facts;
      current = {
        job,
        topology,
        facts,
        blocks: blocksOf(job.groups, hostOf),
        rows: hostRows(job.groups, job.hosts, hostOf),
        links: linksOf(job.groups, (endpoint) => hostOf.get(endpoint) ?? endpoint),
      };
      draw();
    },
  };
}
