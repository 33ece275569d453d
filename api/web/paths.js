// The ways of edges between the nodes of a drawing: {d, end, turn}, the last two for an arrow's head.

export const HEAD = 6; // px, length of an arrow's head
const BOW = 0.16; // how far other than neighbours' edges bow, per px of length
const STRAIGHT = 90; // px up to which an edge of a grid is straight

export const round = (value) => Math.round(value * 10) / 10;

function line(a, b, bend) {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const bow = bend ? Math.min(length * BOW, 46) : 0;
  const middle = {
    x: (a.x + b.x) / 2 - ((b.y - a.y) / length) * bow,
    y: (a.y + b.y) / 2 + ((b.x - a.x) / length) * bow,
  };
  const leave = Math.atan2(middle.y - a.y, middle.x - a.x);
  const enter = Math.atan2(b.y - middle.y, b.x - middle.x);
  const [from, to] = [a.node + 2, b.node + 3];
  const start = { x: a.x + Math.cos(leave) * from, y: a.y + Math.sin(leave) * from };
  const end = { x: b.x - Math.cos(enter) * to, y: b.y - Math.sin(enter) * to };
  const curve = bow ? `Q${round(middle.x)} ${round(middle.y)} ` : "L";
  return {
    d: `M${round(start.x)} ${round(start.y)}${curve}${round(end.x)} ${round(end.y)}`,
    end,
    turn: enter,
  };
}

// Along the circle from one neighbour to the next, clockwise, or the other way.
function arc(a, b, centre, clockwise) {
  const r = a.radius;
  const way = clockwise ? 1 : -1;
  const from = a.turn + (way * (a.node + 2)) / r;
  const to = b.turn - (way * (b.node + 3)) / r;
  const at = (turn, out = 0) => ({
    x: centre.x + (r + out) * Math.cos(turn),
    y: centre.y + (r + out) * Math.sin(turn),
  });
  const start = at(from);
  const end = at(to);
  const ends = [start, end].map(({ x, y }) => `${round(x)} ${round(y)}`);
  const d = `M${ends[0]}A${round(r)} ${round(r)} 0 0 ${clockwise ? 1 : 0} ${ends[1]}`;
  // A head follows the chord of its own length.
  return { d, end, turn: to + (way * Math.PI) / 2 - (way * HEAD) / (2 * r) };
}

// From a parent at the left to its child at the right, or back.
function branch(a, b) {
  const way = Math.sign(b.x - a.x);
  const start = { x: a.x + way * (a.node + 2), y: a.y };
  const end = { x: b.x - way * (b.node + 3), y: b.y };
  const middle = round((start.x + end.x) / 2);
  const ends = [start, end].map(({ x, y }) => ({ x: round(x), y: round(y) }));
  const bends = `C${middle} ${ends[0].y} ${middle} ${ends[1].y} `;
  const d = `M${ends[0].x} ${ends[0].y}${bends}${ends[1].x} ${ends[1].y}`;
  return { d, end, turn: way > 0 ? 0 : Math.PI };
}

// An edge between two places of a layout.
export function pathBetween(a, b, layout) {
  if (layout.kind === "tree") return branch(a, b);
  if (layout.kind === "circles" && a.depth === b.depth && a.of > 1) {
    if ((a.nth + 1) % a.of === b.nth) return arc(a, b, layout.centre, true);
    if ((b.nth + 1) % b.of === a.nth) return arc(a, b, layout.centre, false);
    return line(a, b, false);
  }
  if (layout.kind === "circles") return line(a, b, Math.abs(a.depth - b.depth) > 1);
  const neighbours =
    a.depth === b.depth
      ? Math.abs(a.nth - b.nth) === 1
      : Math.hypot(a.x - b.x, a.y - b.y) <= STRAIGHT;
  return line(a, b, !neighbours);
}

// Between two stages of a chain drawn as a row of pills: forward above the middle, backward below;
// between stages that are no neighbours, below the row.
export function stagePath(from, to, x, y, pill) {
  const forward = to > from;
  const shift = forward ? -4 : 4;
  if (Math.abs(to - from) === 1) {
    const start = forward ? x(from) + pill + 3 : x(from) - 3;
    const end = { x: forward ? x(to) - 3 : x(to) + pill + 3, y: y + shift };
    const d = `M${round(start)} ${y + shift}L${round(end.x)} ${y + shift}`;
    return { d, end, turn: forward ? 0 : Math.PI };
  }
  const start = round(x(from) + pill / 2 + shift * 2);
  const end = { x: round(x(to) + pill / 2 + shift * 2), y: y + 14 };
  const low = y + (forward ? 26 : 31);
  const side = forward ? 10 : -10;
  const d =
    `M${start} ${y + 14}Q${start} ${low} ${start + side} ${low}` +
    `L${end.x - side} ${low}Q${end.x} ${low} ${end.x} ${y + 14}`;
  return { d, end, turn: -Math.PI / 2 };
}
