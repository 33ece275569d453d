// What is said of a node or an edge of a drawing when it is pointed at.

import { bytes, listed, plural, sure, words } from "./units.js";

const MOST = 8; // lines of one sort

// What the drawings need to know of a job: hosts, coordinates, volumes of edges.
export function factsOf(topology, groups) {
  const hostOf = new Map(topology.nodes.map(({ endpoint, host }) => [endpoint, host ?? endpoint]));
  const volumes = new Map(topology.edges.map((edge) => [`${edge.src} ${edge.dst}`, edge]));
  const endpointsOf = new Map();
  const file = (name, node) => {
    if (!endpointsOf.has(name)) endpointsOf.set(name, []);
    endpointsOf.get(name).push(node);
  };
  for (const node of topology.nodes) {
    file(hostOf.get(node.endpoint), node);
    if (node.endpoint !== hostOf.get(node.endpoint)) file(node.endpoint, node);
  }
  const groupsOf = new Map();
  for (const group of groups) {
    for (const member of group.members) {
      if (!groupsOf.has(member)) groupsOf.set(member, []);
      groupsOf.get(member).push(group.id);
    }
  }
  const nodeLines = (name) => {
    const nodes = endpointsOf.get(name) ?? [];
    const known = nodes.map(({ endpoint, coordinates }) => {
      const place = Object.entries(coordinates)
        .map(([kind, nth]) => `${kind} ${nth}`)
        .join(", ");
      const ids = (groupsOf.get(endpoint) ?? []).join(", ");
      const who = endpoint === name ? `on ${hostOf.get(endpoint)}` : endpoint;
      return `${who}${place && `: rank ${place}`}${ids && ` (in ${ids})`}`;
    });
    return [name, ...cut(known)];
  };
  return { hostOf, volumes, nodeLines };
}

function cut(lines) {
  return lines.length > MOST ? [...lines.slice(0, MOST), `and ${lines.length - MOST} more`] : lines;
}

// Names, bytes per iteration of each rail, the groups, how sure that is and on what basis.
export function edgeLines(link, facts) {
  const directions = [link.pairs, ...(link.back ? [link.back.pairs] : [])];
  const volumes = directions.flatMap((pairs) => cut(pairs.map((pair) => volumeLine(pair, facts))));
  const groups = new Map(link.pairs.map(({ group }) => [group.id, group]));
  const ids = [...groups.keys()];
  const least = [...groups.values()].reduce((a, b) => (b.confidence < a.confidence ? b : a));
  const claim = least.evidence?.order ?? least.evidence?.members ?? least.evidence?.kind;
  return [
    `${link.from} ${link.back ? "⇄" : "→"} ${link.to}`,
    ...volumes,
    `${link.kind} ${words(least.algorithm)}, ${words(least.collective)}: ${listed(ids, MOST)}`,
    `sure ${sure(least.confidence)}${claim ? `: ${claim.basis} (${plural(claim.samples, "sample")})` : ""}`,
  ];
}

function volumeLine({ src, dst }, { volumes }) {
  const edge = volumes.get(`${src} ${dst}`);
  const perIteration = edge?.bytes_per_iteration ?? null;
  const inWindow = edge?.bytes
    ? `${bytes(edge.bytes)} in the window, per iteration not known`
    : "no bytes seen";
  const said = perIteration === null ? inWindow : `${bytes(perIteration)} an iteration`;
  return `${src} → ${dst}: ${said}`;
}
