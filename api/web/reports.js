// Stored reports of a job.

import { el } from "./dom.js";
import { moment } from "./units.js";

const MOST = 10;

// Links to the newest reports; nothing where there are none.
export function reportLinks(reports, today) {
  // Only paths of this service become links.
  const link = (path, text) => path?.startsWith("/reports/") && el("a", { href: path }, text);
  if (!reports.length) return null;
  return [
    el("h2", {}, "Reports"),
    el(
      "ul",
      { class: "plain" },
      reports
        .slice(0, MOST)
        .map((report) =>
          el(
            "li",
            { class: "report" },
            moment(report.created, today),
            link(report.html, "html"),
            link(report.json, "json"),
          ),
        ),
    ),
  ];
}
