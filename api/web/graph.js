// Rings, chains, trees and whole jobs as SVG.

import { el, svg } from "./dom.js";
import { edgeLines } from "./graphtips.js";
import { NODE, arrange, circles, labelWidth, shortened, tree } from "./layout.js";
import { HEAD, pathBetween, round, stagePath } from "./paths.js";
import { linksOf } from "./picture.js";
import { plural } from "./units.js";

const STAGE_GAP = 64; // px between the stages of a chain
const CHAIN_ROW = 40;
const CHAIN_ROW_WRAPPED = 58; // with edges from the last stage back to the first
const BROAD = 460; // px; wider maps shrink with the page, down to this
const MOST_LINKS = 4000;

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

function canvas(kind, width, height, label, ...children) {
  return svg(
    "svg",
    {
      class: width > BROAD ? `graph ${kind} broad` : `graph ${kind}`,
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
  return svg("path", {
    class: "arrow",
    transform: at,
    d: `M0 0L${-HEAD} ${-HEAD / 2}L${-HEAD} ${HEAD / 2}z`,
  });
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

function edges(links, layout, facts) {
  return merged(links)
    .slice(0, MOST_LINKS)
    .map((link) => {
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
      svg("circle", { class: "reach", cx: round(place.x), cy: round(place.y), r: place.node + 6 }),
      svg("circle", { class: "disc", cx: round(place.x), cy: round(place.y), r: place.node }),
      layout.labelled(place) && label(name, place, layout),
    ),
  );
}

function label(name, place, layout) {
  const text = shortened(name);
  if (layout.kind === "tree") {
    return place.leaf
      ? svg("text", { x: place.x + 10, y: round(place.y) + 4 }, text)
      : svg(
          "text",
          {
            x: place.x,
            y: round(place.y) - 9,
            "text-anchor": place.depth ? "middle" : "start",
            dx: place.depth ? 0 : -NODE,
          },
          text,
        );
  }
  if (layout.kind === "circles" && place.inside) {
    // Outward, beside the spoke that runs through the node.
    return beside(place, place.turn + Math.PI / 4, 10, text);
  }
  if (layout.kind === "grid") {
    return svg(
      "text",
      { x: round(place.x), y: round(place.y) + 17, "text-anchor": "middle" },
      text,
    );
  }
  if (layout.radial) {
    const [cos, sin] = [Math.cos(place.turn), Math.sin(place.turn)];
    const left = cos < -1e-9;
    const degrees = round((place.turn * 180) / Math.PI + (left ? 180 : 0));
    const at = `translate(${round(place.x + 11 * cos)} ${round(place.y + 11 * sin)}) rotate(${degrees})`;
    return svg("text", { transform: at, y: 4, "text-anchor": left ? "end" : "start" }, text);
  }
  return beside(place, place.turn, 12, text);
}

function beside(place, turn, far, text) {
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  const anchor = Math.abs(cos) < 0.2 ? "middle" : cos > 0 ? "start" : "end";
  return svg(
    "text",
    {
      x: round(place.x + far * cos),
      y: round(place.y + 4 + (far + 4) * sin),
      "text-anchor": anchor,
    },
    text,
  );
}

// All hosts of a job and the edges of its groups, coloured by kind.
export function jobMap(rows, links, facts) {
  const layout = arrange(rows, links);
  const cut = merged(links).length - MOST_LINKS;
  return [
    canvas(
      "map",
      layout.width,
      layout.height,
      "hosts and their groups",
      edges(links, layout, facts),
      nodes(layout, facts),
    ),
    cut > 0 && el("p", { class: "soft" }, `${plural(cut, "edge")} not drawn.`),
  ];
}

// A group that is a ring, or has no order: its members on one circle.
export function circleFigure(shape, facts, large) {
  const layout = circles([shape.nodes], large);
  const { x, y } = layout.centre;
  const rails = shape.groups.length;
  return canvas(
    "circle",
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
    const own = links.filter(
      ({ from, to }) => parents.get(from) === to || parents.get(to) === from,
    );
    return canvas(
      "tree",
      layout.width,
      layout.height,
      `tree ${nth + 1} of ${shape.trees.length}`,
      edges(own, layout, facts),
      nodes(layout, facts),
    );
  });
}

// Chains as rows, their stages as columns.
export function chainRows(shapes, facts) {
  const names = shapes.flatMap((shape) => shape.nodes);
  const stages = Math.max(...shapes.map((shape) => shape.nodes.length));
  const pill = labelWidth(names) + 18;
  const left = shapes.some((shape) => shape.groups.length > 1) ? 66 : 10;
  const drawn = shapes.map((shape) => ({ shape, links: linksOf(shape.groups, shape.name) }));
  const far = ({ shape, links }) =>
    links.some(({ from, to }) => Math.abs(shape.nodes.indexOf(from) - shape.nodes.indexOf(to)) > 1);
  const row = drawn.some(far) ? CHAIN_ROW_WRAPPED : CHAIN_ROW;
  const x = (stage) => left + stage * (pill + STAGE_GAP);
  const y = (nth) => 46 + nth * row;
  const heads = Array.from({ length: stages }, (_, stage) =>
    svg(
      "text",
      { class: "tick", x: x(stage) + pill / 2, y: 16, "text-anchor": "middle" },
      `stage ${stage}`,
    ),
  );
  const rows = drawn.map(({ shape, links }, nth) => [
    shape.groups.length > 1 &&
      svg("text", { class: "rails", x: 6, y: y(nth) + 4 }, `×${shape.groups.length} rails`),
    links.map((link) => hop(link, shape.nodes, (stage) => x(stage), y(nth), pill, facts)),
    shape.nodes.map((name, stage) =>
      part(
        "g",
        { class: "node pill", "data-name": name },
        facts.nodeLines(name),
        nth === 0 && stage === 0,
        svg("rect", {
          class: "disc",
          x: x(stage),
          y: y(nth) - 12,
          width: pill,
          height: 24,
          rx: 12,
        }),
        svg(
          "text",
          { x: x(stage) + pill / 2, y: y(nth) + 4, "text-anchor": "middle" },
          shortened(name),
        ),
      ),
    ),
  ]);
  return canvas(
    "chains",
    x(stages - 1) + pill + 10,
    y(shapes.length - 1) + row - 20,
    `${plural(shapes.length, "chain")} of ${stages} stages`,
    heads,
    rows,
  );
}

// One direction between two stages.
function hop(link, order, x, y, pill, facts) {
  const places = [order.indexOf(link.from), order.indexOf(link.to)];
  const { d, end, turn } = stagePath(...places, x, y, pill);
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
