// Elements from values, and live elements brought in line with wanted ones.
//
// Text from the network becomes text nodes and attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

// An HTML element; null, undefined and false among attributes and children are left out.
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

// An SVG element, likewise.
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

// A part of the page that is built anew only when what it shows has changed.
//
// `build` gets the values and returns the wanted children; what is the same stays in the document,
// so that focus, open details and scroll positions survive.
export function panel(node, build) {
  let shown = null;
  return (...values) => {
    const same = shown && values.length === shown.length && values.every((v, i) => v === shown[i]);
    if (same) return;
    shown = values;
    const wanted = node.cloneNode(false);
    wanted.append(...[build(...values)].flat(Infinity).filter(Boolean));
    alignChildren(node, wanted);
  };
}

// Children are matched by their `data-key`, those without one by place and name.
function alignChildren(live, wanted) {
  const keyed = new Map();
  for (const child of live.children) {
    if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  }
  let next = live.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = child.dataset?.key;
    let match = key === undefined ? next : keyed.get(key);
    if (!match || match.nodeName !== child.nodeName || match.dataset?.key !== key) match = null;
    if (!match) {
      live.insertBefore(child, next);
      continue;
    }
    if (match === next) next = next.nextSibling;
    else live.insertBefore(match, next);
    align(match, child);
  }
  while (next) {
    const rest = next.nextSibling;
    next.remove();
    next = rest;
  }
}

function align(live, wanted) {
  if (live.nodeType !== Node.ELEMENT_NODE) {
    if (live.data !== wanted.data) live.data = wanted.data;
    return;
  }
  for (const { name, value } of wanted.attributes) {
    if (live.getAttribute(name) !== value) live.setAttribute(name, value);
  }
  for (const { name } of [...live.attributes]) {
    // Whether details are open is the reader's choice.
    const readers = name === "open" && live.nodeName === "DETAILS";
    if (!wanted.hasAttribute(name) && !readers) live.removeAttribute(name);
  }
  alignChildren(live, wanted);
}
