// One tooltip for everything that carries `data-tip`, and arrow keys among the parts of a drawing.

const GAP = 10; // px between the tooltip and what it is about

const tip = document.getElementById("tip");
let anchor = null;

function show(target) {
  if (anchor === target && !tip.hidden) return;
  hide();
  anchor = target;
  tip.replaceChildren(
    ...target.dataset.tip.split("\n").map((line) => {
      const row = document.createElement("div");
      row.textContent = line;
      return row;
    }),
  );
  tip.hidden = false;
  target.setAttribute("aria-describedby", "tip");
  place();
}

function place() {
  if (!anchor) return;
  const about = anchor.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const left = Math.min(about.left + about.width / 2 - own.width / 2, innerWidth - own.width - GAP);
  const above = about.top - own.height - GAP;
  const below = Math.min(about.bottom + GAP, innerHeight - own.height - GAP);
  tip.style.left = `${Math.max(GAP, left)}px`;
  tip.style.top = `${above > GAP ? above : Math.max(GAP, below)}px`;
}

function hide() {
  anchor?.removeAttribute("aria-describedby");
  anchor = null;
  tip.hidden = true;
}

// Hide a tooltip whose place is no longer in the page.
export function tidyTip() {
  if (anchor && !anchor.isConnected) hide();
}

const about = (event) => event.target.closest?.("[data-tip]");

document.addEventListener("pointerover", (event) => (about(event) ? show(about(event)) : hide()));
document.addEventListener("focusin", (event) => (about(event) ? show(about(event)) : hide()));
document.addEventListener("focusout", hide);
document.addEventListener("scroll", place, { capture: true, passive: true });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.("[data-arrows]");
  if (!step || !row) return;
  const parts = [...row.querySelectorAll("[tabindex]")];
  const here = parts.indexOf(event.target.closest("[tabindex]"));
  parts[(here + step + parts.length) % parts.length]?.focus({ preventScroll: false });
  event.preventDefault();
});
