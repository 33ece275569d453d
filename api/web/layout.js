// Where the nodes of a drawing stand, in px, y downward.

import { natural } from "./units.js";

export const NODE = 5; // px, radius
const SMALL_NODE = 3;
const LETTER = 6.6; // px, about, of a label's type
const CIRCLE_GAP = 54; // between concentric circles, at the least
const DENSE_GAP = 30;
const WIDEST_CIRCLE = 460; // px, radius of the innermost one
const MOST_LABELLED = 24; // members of a circle that all carry their names
const COLUMN = 84;
const ROW = 78;
const LEVEL = 74; // between the levels of a tree
const LEAF = 26;
const MOST_CIRCLES = 12;

export const labelWidth = (names) =>
  Math.max(0, ...names.map((name) => shortened(name).length)) * LETTER;

// A label that never outgrows its place; the tooltip has the whole name.
export function shortened(name) {
  return name.length <= 20 ? name : `${name.slice(0, 8)}…${name.slice(-10)}`;
}

// Rows of equal length as concentric circles, the first one innermost; other rows as a grid.
// `links` align a row with the one before it, so that pipelines run outward or downward.
export function arrange(rows, links) {
  const joined = new Map();
  for (const { from, to } of links) {
    for (const [a, b] of [
      [from, to],
      [to, from],
    ]) {
      if (!joined.has(a)) joined.set(a, new Set());
      joined.get(a).add(b);
    }
  }
  const aligned = [];
  for (const row of rows)
    aligned.push(aligned.length ? alignedRow(row, aligned.at(-1), joined) : row);
  const even = aligned.every((row) => row.length === aligned[0].length);
  return even && aligned.length <= MOST_CIRCLES ? circles(aligned) : grid(aligned);
}

function alignedRow(row, above, joined) {
  const column = new Map(above.map((name, nth) => [name, nth]));
  const own = new Map(row.map((name, nth) => [name, nth]));
  const under = (name) => {
    const places = [...(joined.get(name) ?? [])]
      .filter((top) => column.has(top))
      .map((top) => column.get(top));
    return places.length ? Math.min(...places) : own.get(name);
  };
  return [...row].sort((a, b) => under(a) - under(b) || own.get(a) - own.get(b));
}

// Concentric circles, clockwise from the top. `large` draws one circle as big as fits a page.
export function circles(rows, large = false) {
  const size = Math.max(...rows.map((row) => row.length), 1);
  const names = rows.flat();
  const wide = labelWidth(names);
  const several = rows.length > 1;
  const dense = size > MOST_LABELLED; // small nodes, and names at the outermost circle only
  const radial = size > 16; // labels along the radius: more of them fit
  const beside = size <= 12 ? Math.max(40, Math.min(wide + 12, 64)) : 40;
  const arc = dense ? 20 : several ? beside : radial ? 15 : 30;
  const least = several ? 62 : large ? 120 : 74;
  const inner = Math.min(Math.max(least, (size * arc) / (2 * Math.PI)), WIDEST_CIRCLE);
  const apart = dense ? DENSE_GAP : Math.max(CIRCLE_GAP, wide + 16);
  const radius = (depth) => inner + depth * apart;
  const outer = radius(rows.length - 1);
  const margin = { x: wide + 20, y: radial ? wide + 20 : 34 };
  const centre = { x: outer + margin.x, y: outer + margin.y };
  const places = new Map();
  rows.forEach((row, depth) =>
    row.forEach((name, nth) => {
      const turn = (2 * Math.PI * nth) / row.length - Math.PI / 2;
      const r = radius(depth);
      places.set(name, {
        x: centre.x + r * Math.cos(turn),
        y: centre.y + r * Math.sin(turn),
        turn,
        radius: r,
        nth,
        depth,
        of: row.length,
        node: dense ? SMALL_NODE : NODE,
        inside: depth < rows.length - 1,
      });
    }),
  );
  const fits = (2 * Math.PI * outer) / size >= 13;
  return {
    kind: "circles",
    width: 2 * centre.x,
    height: 2 * centre.y,
    centre,
    places,
    radial,
    labelled: (place) => fits && !(dense && place.inside),
  };
}

function grid(rows) {
  const column = Math.max(COLUMN, labelWidth(rows.flat()) + 16);
  const margin = { x: column / 2 + 8, y: 56 };
  const longest = Math.max(...rows.map((row) => row.length), 1);
  const places = new Map();
  rows.forEach((row, depth) =>
    row.forEach((name, nth) =>
      places.set(name, {
        x: margin.x + nth * column,
        y: margin.y + depth * ROW,
        nth,
        depth,
        node: NODE,
      }),
    ),
  );
  return {
    kind: "grid",
    width: 2 * margin.x + (longest - 1) * column,
    height: 2 * margin.y + (rows.length - 1) * ROW,
    places,
    labelled: () => true,
  };
}

// A tree from its root at the left; `parents` maps child to parent. What no root reaches is left
// out, as a cycle would be.
export function tree(parents) {
  const children = new Map();
  for (const [child, up] of parents) {
    if (!children.has(up)) children.set(up, []);
    children.get(up).push(child);
  }
  const roots = [...new Set(parents.values())].filter((name) => !parents.has(name)).sort(natural);
  const places = new Map();
  let leaves = 0;
  // Depth first with an own stack: a node is placed after its children.
  const stack = roots.reverse().map((name) => ({ name, depth: 0, ready: false }));
  while (stack.length) {
    const { name, depth, ready } = stack.pop();
    const below = children.get(name) ?? [];
    if (!ready && below.length) {
      stack.push({ name, depth, ready: true });
      for (const child of [...below].sort(natural).reverse())
        stack.push({ name: child, depth: depth + 1, ready: false });
      continue;
    }
    const spot = below.length
      ? below.reduce((sum, child) => sum + places.get(child).y, 0) / below.length
      : 24 + LEAF * leaves++;
    places.set(name, { x: 16 + depth * LEVEL, y: spot, depth, leaf: !below.length, node: NODE });
  }
  const deepest = Math.max(0, ...[...places.values()].map((place) => place.depth));
  const width = labelWidth([...places.keys()]) + 34 + deepest * LEVEL;
  return {
    kind: "tree",
    width,
    height: 34 + LEAF * Math.max(leaves, 1),
    places,
    labelled: () => true,
  };
}
