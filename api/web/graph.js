// Rings, chains, trees and whole jobs as SVG.

import { el, svg } from "./dom.js";
import { edgeLines } from "./graphtips.js";
import { arrange, circles, labelWidth, shortened, tree } from "./layout.js";
import { linksOf } from "./picture.js";
import { plural } from "./units.js";

const NODE = 5; // px, radius
const HEAD = 6; // px, length of an arrow's head
const BOW = 0.16; // how far other than neighbours' edges bow, per px of length
const STRAIGHT = 90; // px up to which an edge of a grid is straight
const STAGE_GAP = 64; // px between the stages of a chain
const CHAIN_ROW = 40;
const CHAIN_ROW_WRAPPED = 58; // with edges from the last stage back to the first
const MOST_LINKS = 4000;

const round = (value) => Math.round(value * 10) / 10;

// Everything that can be pointed at: its lines are the tooltip and the accessible name.
function part(name, attributes, lines, first, ...children) {
  return svg(
    name,
    {
      ...attributes,
      "data-tip": lines.join("\n"),
      role: "img",
      "aria-label": lines.join(", "),
      tabindex: first ? 0 : -1,
    },
    children,
  );
}

function canvas(width, height, label, ...children) {
  return svg(
    "svg",
    {
      class: "graph",
      width: round(width),
      height: round(height),
      viewBox: `0 0 ${round(width)} ${round(height)}`,
      role: "group",
      "data-arrows": true,
      "aria-label": `${label}; arrow keys move among its parts`,
    },
    children,
  );
}

function head(x, y, turn) {
  const at = `translate(${round(x)} ${round(y)}) rotate(${round((turn * 180) / Math.PI)})`;
  return svg("path", { class: "arrow", transform: at, d: `M0 0L${-HEAD} ${-HEAD / 2}L${-HEAD} ${HEAD / 2}z` });
}

// The two directions of a link as one, where both are there.
function merged(links) {
  const byKey = new Map(links.map((link) => [link.key, link]));
  const done = new Set();
  const found = [];
  for (const link of links) {
    if (done.has(link.key)) continue;
    const back = byKey.get(JSON.stringify([link.kind, link.to, link.from]));
    if (back) done.add(back.key);
    found.push({ ...link, back: back ?? null });
  }
  return found;
}

// ---- paths -------------------------------------------------------------------------------------

function line(a, b, bend) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const bow = bend ? Math.min(length * BOW, 46) : 0;
  const middle = { x: (a.x + b.x) / 2 - ((b.y - a.y) / length) * bow, y: (a.y + b.y) / 2 + ((b.x - a.x) / length) * bow };
  const leave = Math.atan2(middle.y - a.y, middle.x - a.x);
  const enter = Math.atan2(b.y - middle.y, b.x - middle.x);
  const [from, to] = [NODE + 2, NODE + 3];
  const start = { x: a.x + Math.cos(leave) * from, y: a.y + Math.sin(leave) * from };
  const end = { x: b.x - Math.cos(enter) * to, y: b.y - Math.sin(enter) * to };
  const curve = bow ? `Q${round(middle.x)} ${round(middle.y)} ` : "L";
  return { d: `M${round(start.x)} ${round(start.y)}${curve}${round(end.x)} ${round(end.y)}`, end, turn: enter };
}

// Along the circle from one neighbour to the next, clockwise, or the other way.
function arc(a, b, centre, clockwise) {
  const r = a.radius;
  const way = clockwise ? 1 : -1;
  const from = a.turn + (way * (NODE + 3)) / r;
  const to = b.turn - (way * (NODE + 3)) / r;
  const at = (turn, out = 0) => ({ x: centre.x + (r + out) * Math.cos(turn), y: centre.y + (r + out) * Math.sin(turn) });
  const start = at(from);
  const end = at(to);
  const large = a.of === 2 && (NODE + 3) / r < 0 ? 1 : 0;
  const d = `M${round(start.x)} ${round(start.y)}A${round(r)} ${round(r)} 0 ${large} ${clockwise ? 1 : 0} ${round(end.x)} ${round(end.y)}`;
  // A head follows the chord of its own length.
  return { d, end, turn: to + (way * Math.PI) / 2 - (way * HEAD) / (2 * r) };
}

function pathBetween(a, b, layout) {
  if (layout.kind === "circles" && a.depth === b.depth && a.of > 1) {
    if ((a.nth + 1) % a.of === b.nth) return arc(a, b, layout.centre, true);
    if ((b.nth + 1) % b.of === a.nth) return arc(a, b, layout.centre, false);
    return line(a, b, false);
  }
  if (layout.kind === "circles") return line(a, b, Math.abs(a.depth - b.depth) > 1);
  return line(a, b, Math.hypot(a.x - b.x, a.y - b.y) > Math.max(STRAIGHT, 0) && (a.depth === b.depth ? Math.abs(a.nth - b.nth) > 1 : true));
}

// ---- drawings ----------------------------------------------------------------------------------

function edges(links, layout, facts) {
  return merged(links).slice(0, MOST_LINKS).map((link) => {
    const [a, b] = [layout.places.get(link.from), layout.places.get(link.to)];
    if (!a || !b) return null;
    const { d, end, turn } = pathBetween(a, b, layout);
    return part(
      "g",
      { class: `edge ${link.kind}`, "data-from": link.from, "data-to": link.to },
      edgeLines(link, facts),
      false,
      svg("path", { class: "reach", d }),
      svg("path", { class: "line", d }),
      !link.back && head(end.x, end.y, turn),
    );
  });
}

function nodes(layout, facts) {
  return [...layout.places].map(([name, place], nth) =>
    part(
      "g",
      { class: "node", "data-name": name },
      facts.nodeLines(name),
      nth === 0,
      svg("circle", { class: "reach", cx: round(place.x), cy: round(place.y), r: NODE + 6 }),
      svg("circle", { class: "disc", cx: round(place.x), cy: round(place.y), r: NODE }),
      layout.labelled && label(name, place, layout),
    ),
  );
}

function label(name, place, layout) {
  const text = shortened(name);
  if (layout.kind === "tree") {
    return place.leaf
      ? svg("text", { x: place.x + 10, y: round(place.y) + 4 }, text)
      : svg("text", { x: place.x, y: round(place.y) - 9, "text-anchor": place.depth ? "middle" : "start", dx: place.depth ? 0 : -NODE }, text);
  }
  if (layout.kind !== "circles" || !place.outer) {
    return svg("text", { x: round(place.x), y: round(place.y) + 17, "text-anchor": "middle" }, text);
  }
  const [cos, sin] = [Math.cos(place.turn), Math.sin(place.turn)];
  if (layout.radial) {
    const left = cos < -1e-9;
    const degrees = round((place.turn * 180) / Math.PI + (left ? 180 : 0));
    const at = `translate(${round(place.x + 11 * cos)} ${round(place.y + 11 * sin)}) rotate(${degrees})`;
    return svg("text", { transform: at, y: 4, "text-anchor": left ? "end" : "start" }, text);
  }
  const anchor = Math.abs(cos) < 0.2 ? "middle" : cos > 0 ? "start" : "end";
  return svg("text", { x: round(place.x + 12 * cos), y: round(place.y + 4 + 16 * sin), "text-anchor": anchor }, text);
}

// All hosts of a job and the edges of its groups, coloured by kind.
export function jobMap(rows, links, facts) {
  const layout = arrange(rows, links);
  const cut = merged(links).length - MOST_LINKS;
  return [
    canvas(layout.width, layout.height, "hosts and their groups", edges(links, layout, facts), nodes(layout, facts)),
    cut > 0 && el("p", { class: "soft" }, `${plural(cut, "edge")} not drawn.`),
  ];
}

// A group that is a ring, or has no order: its members on one circle.
export function circleFigure(shape, facts, large) {
  const layout = circles([shape.nodes], large);
  const { x, y } = layout.centre;
  const rails = shape.groups.length;
  return canvas(
    layout.width,
    layout.height,
    `${shape.groups[0].algorithm} of ${shape.nodes.length}`,
    rails > 1 && [
      svg("text", { class: "times", x, y: y + 2, "text-anchor": "middle" }, `×${rails}`),
      svg("text", { class: "rails", x, y: y + 18, "text-anchor": "middle" }, "rails"),
    ],
    edges(linksOf(shape.groups, shape.name), layout, facts),
    nodes(layout, facts),
  );
}

// Each distinct tree from its root at the left.
export function treeFigures(shape, facts) {
  const links = linksOf(shape.groups, shape.name);
  return shape.trees.map((parents, nth) => {
    const layout = tree(parents);
    const own = links.filter(({ from, to }) => parents.get(from) === to || parents.get(to) === from);
    return canvas(layout.width, layout.height, `tree ${nth + 1} of ${shape.trees.length}`, edges(own, layout, facts), nodes(layout, facts));
  });
}

// Chains as rows, their stages as columns.
export function chainRows(shapes, facts) {
  const names = shapes.flatMap((shape) => shape.nodes);
  const stages = Math.max(...shapes.map((shape) => shape.nodes.length));
  const pill = labelWidth(names) + 18;
  const left = shapes.some((shape) => shape.groups.length > 1) ? 66 : 10;
  const drawn = shapes.map((shape) => ({ shape, links: linksOf(shape.groups, shape.name) }));
  const far = ({ shape, links }) => links.some(({ from, to }) => Math.abs(shape.nodes.indexOf(from) - shape.nodes.indexOf(to)) > 1);
  const row = drawn.some(far) ? CHAIN_ROW_WRAPPED : CHAIN_ROW;
  const x = (stage) => left + stage * (pill + STAGE_GAP);
  const y = (nth) => 46 + nth * row;
  const heads = Array.from({ length: stages }, (_, stage) =>
    svg("text", { class: "tick", x: x(stage) + pill / 2, y: 16, "text-anchor": "middle" }, `stage ${stage}`),
  );
  const rows = drawn.map(({ shape, links }, nth) => [
    shape.groups.length > 1 && svg("text", { class: "rails", x: 6, y: y(nth) + 4 }, `×${shape.groups.length} rails`),
    links.map((link) => hop(link, shape.nodes, (stage) => x(stage), y(nth), pill, facts)),
    shape.nodes.map((name, stage) =>
      part(
        "g",
        { class: "node pill", "data-name": name },
        facts.nodeLines(name),
        nth === 0 && stage === 0,
        svg("rect", { class: "disc", x: x(stage), y: y(nth) - 12, width: pill, height: 24, rx: 12 }),
        svg("text", { x: x(stage) + pill / 2, y: y(nth) + 4, "text-anchor": "middle" }, shortened(name)),
      ),
    ),
  ]);
  return canvas(x(stages - 1) + pill + 10, y(shapes.length - 1) + row - 20, `${plural(shapes.length, "chain")} of ${stages} stages`, heads, rows);
}

// One direction between two stages: forward above the middle, backward below; between stages that
// are no neighbours, below the row.
function hop(link, order, x, y, pill, facts) {
  const [from, to] = [order.indexOf(link.from), order.indexOf(link.to)];
  const forward = to > from;
  const shift = forward ? -4 : 4;
  let d, end, turn;
  if (Math.abs(to - from) === 1) {
    const start = forward ? x(from) + pill + 3 : x(from) - 3;
    end = { x: forward ? x(to) - 3 : x(to) + pill + 3, y: y + shift };
    turn = forward ? 0 : Math.PI;
    d = `M${round(start)} ${y + shift}L${round(end.x)} ${y + shift}`;
  } else {
    const start = x(from) + pill / 2 + shift * 2;
    end = { x: x(to) + pill / 2 + shift * 2, y: y + 14 };
    turn = -Math.PI / 2;
    const low = y + (forward ? 26 : 31);
    const side = forward ? 10 : -10;
    d = `M${round(start)} ${y + 14}Q${round(start)} ${low} ${round(start + side)} ${low}L${round(end.x - side)} ${low}Q${round(end.x)} ${low} ${round(end.x)} ${y + 14}`;
  }
  return part(
    "g",
    { class: `edge ${link.kind}`, "data-from": link.from, "data-to": link.to },
    edgeLines({ ...link, back: null }, facts),
    false,
    svg("path", { class: "reach", d }),
    svg("path", { class: "line", d }),
    head(end.x, end.y, turn),
  );
}
