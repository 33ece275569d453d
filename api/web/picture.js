// What a picture of a job shows: its groups, with rails that draw equal rings folded into one.

import { KINDS } from "./claims.js";
import { median, natural } from "./units.js";

const ORDER = [...KINDS, "unknown"];

const rank = (kind) => (ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length);

// Blocks of equal groups, each with its distinct drawings ("shapes").
//
// block: {key, kind, algorithm, variant, collective, size, groups, bytes, sure, shapes}
// shape: {key, nodes, trees, groups, name}; `name` gives an endpoint's label in the drawing, and
// the trees are maps from child to parent.
export function blocksOf(groups, hostOf) {
  const nics = new Map();
  for (const host of hostOf.values()) nics.set(host, (nics.get(host) ?? 0) + 1);
  const blocks = new Map();
  for (const group of groups) {
    const variant = group.algorithms.find((a) => a.algorithm === group.algorithm)?.variant ?? null;
    const size = group.members.length;
    const key = [group.kind, group.algorithm, variant, group.collective, size].join(" ");
    const block = blocks.get(key) ?? { key, variant, size, groups: [], folded: new Map() };
    blocks.set(key, block);
    const shape = outline(group, byHost(group, hostOf));
    const mark = JSON.stringify([shape.nodes, shape.trees.map((tree) => [...tree])]);
    if (block.folded.has(mark)) block.folded.get(mark).groups.push(group);
    else block.folded.set(mark, { ...shape, groups: [group] });
    block.groups.push(group);
  }
  return [...blocks.values()]
    .map((block) => finished(block, hostOf, nics))
    .sort(
      (a, b) => rank(a.kind) - rank(b.kind) || (b.bytes ?? 0) - (a.bytes ?? 0) || b.size - a.size,
    );
}

function finished({ key, variant, size, groups, folded }, hostOf, nics) {
  const shapes = [...folded.values()].map((shape) => {
    const [alone, ...more] = shape.groups;
    // The host's name would not say which of its NICs is meant.
    const vague = !more.length && alone.members.some((m) => (nics.get(hostOf.get(m)) ?? 1) > 1);
    const drawn = vague ? { ...outline(alone, (member) => member), groups: shape.groups } : shape;
    return { ...drawn, key: alone.id };
  });
  shapes.sort((a, b) => natural(a.nodes.join(" "), b.nodes.join(" ")));
  const { kind, algorithm, collective } = groups[0];
  const known = groups
    .map((group) => group.bytes_per_iteration)
    .filter((volume) => volume !== null);
  const bytes = median(known);
  const sure = Math.min(...groups.map((group) => group.confidence));
  return { key, kind, algorithm, variant, collective, size, groups, bytes, sure, shapes };
}

// Member -> host, or the member itself where a host would stand twice.
function byHost(group, hostOf) {
  const names = new Set(group.members.map((member) => hostOf.get(member) ?? member));
  return names.size < group.members.length
    ? (member) => member
    : (member) => hostOf.get(member) ?? member;
}

// What makes two groups the same drawing: nodes in order, and distinct trees.
function outline(group, name) {
  const nodes = group.members.map(name);
  const ordered = { ring: rotated, chain: (names) => names }[group.algorithm];
  const trees = new Map();
  for (const { algorithm, channels } of group.algorithms) {
    if (algorithm !== "tree") continue;
    for (const { parent } of channels) {
      if (!parent) continue;
      const links = Object.entries(parent).map(([child, up]) => [name(child), name(up)]);
      links.sort(([a], [b]) => natural(a, b));
      trees.set(JSON.stringify(links), new Map(links));
    }
  }
  const sorted = [...trees.keys()].sort().map((mark) => trees.get(mark));
  return { nodes: ordered ? ordered(nodes) : nodes.sort(natural), trees: sorted, name };
}

// A ring from its first name on: the same ring wherever it was entered.
function rotated(ring) {
  const first = [...ring].sort(natural)[0];
  const start = ring.indexOf(first);
  return [...ring.slice(start), ...ring.slice(0, start)];
}

// Links between the names of a drawing: {from, to, kind, pairs}; a pair is one edge between
// endpoints with the group that it belongs to.
export function linksOf(groups, name) {
  const links = new Map();
  for (const group of groups) {
    for (const [src, dst] of group.edges) {
      const [from, to] = [name(src), name(dst)];
      if (from === to) continue;
      const key = JSON.stringify([group.kind, from, to]);
      if (!links.has(key)) links.set(key, { key, from, to, kind: group.kind, pairs: [] });
      links.get(key).pairs.push({ src, dst, group });
    }
  }
  return [...links.values()];
}

// The hosts of a job, row by row: a row is a largest group that shares no host with others, and
// rows stand in the order of pipeline stages. Hosts of no group are the last row.
export function hostRows(groups, hosts, hostOf) {
  const name = (member) => hostOf.get(member) ?? member;
  const rows = [];
  const placed = new Set();
  const largest = [...groups].sort(
    (a, b) => b.members.length - a.members.length || rank(a.kind) - rank(b.kind),
  );
  for (const group of largest) {
    const row = [...new Set(group.members.map(name))];
    if (row.some((host) => placed.has(host))) continue;
    rows.push(group.algorithm === "ring" ? rotated(row) : row);
    row.forEach((host) => placed.add(host));
  }
  const stages = new Map();
  for (const group of groups) {
    if (group.algorithm === "chain")
      group.members.forEach((member, stage) => stages.set(name(member), stage));
  }
  const first = (row) => Math.min(...row.map((host) => stages.get(host) ?? 0));
  rows.sort((a, b) => first(a) - first(b));
  const rest = hosts.filter((host) => !placed.has(host)).sort(natural);
  return rest.length ? [...rows, rest] : rows;
}
