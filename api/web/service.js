// Questions to the service.

const PATIENCE_MS = 10_000;

// The service does not answer at all.
export class NoAnswer extends Error {}

// It answers, but with an error (RFC 9457).
export class Problem extends Error {
  constructor(status, body) {
    super([body?.title, body?.detail].filter(Boolean).join(": ") || "no reason given");
    this.status = status;
    this.body = body;
  }
}

const kept = new Map(); // path -> {text, value}: what did not change stays the same object
const MOST_KEPT = 400;

// The answer to a path, parsed; the same object as last time where nothing has changed.
export async function ask(path, signal) {
  let response, text;
  try {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
    response = await fetch(path, { signal: ended, headers: { Accept: "application/json" } });
    text = await response.text();
  } catch (error) {
    if (signal.aborted) throw error;
    throw new NoAnswer(error.name === "TimeoutError" ? "it took too long" : "no connection");
  }
  const before = kept.get(path);
  if (response.ok && before?.text === text) return before.value;
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Problem(response.status, { title: "not an answer of ringscope" });
  }
  if (!response.ok) throw new Problem(response.status, value);
  if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
  kept.set(path, { text, value });
  return value;
}

export const API = "/api/v1";

export function jobPath(id, rest = "") {
  return `${API}/jobs/${encodeURIComponent(id)}${rest}`;
}

export function jobHref(id) {
  return `#/jobs/${encodeURIComponent(id)}`;
}
