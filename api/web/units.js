// Numbers and times as people read them; "?" is what is not known.

const PREFIXES = ["", "k", "M", "G", "T", "P"];

// Bytes with a decimal prefix and three digits, as "1.23 GB".
export function bytes(volume) {
  if (volume === null || volume === undefined) return "?";
  let nth = 0;
  while (volume >= 999.95 && nth < PREFIXES.length - 1) {
    volume /= 1000;
    nth += 1;
  }
  const digits = volume >= 100 || nth === 0 ? 0 : volume >= 10 ? 1 : 2;
  return `${volume.toFixed(digits)} ${PREFIXES[nth]}B`;
}

// Seconds with four digits, as "733.2 ms" or "1.270 s".
export function duration(seconds, digits = 4) {
  if (seconds === null || seconds === undefined) return "?";
  return seconds < 1 ? `${rounded(seconds * 1e3, digits)} ms` : `${rounded(seconds, digits)} s`;
}

// Seconds without needless digits, as "5 s".
export function plainDuration(seconds) {
  return seconds < 1
    ? `${Number((seconds * 1e3).toPrecision(4))} ms`
    : `${Number(seconds.toPrecision(4))} s`;
}

function rounded(value, digits) {
  return value >= 10 ** digits || value === 0 ? value.toFixed(0) : value.toPrecision(digits);
}

// Half of an interval, as "± 9.2 ms"; nothing where there is none.
export function plusMinus(interval) {
  return interval ? `± ${duration((interval[1] - interval[0]) / 2, 2)}` : "";
}

export function count(number) {
  return number === null || number === undefined ? "?" : number.toLocaleString("en-US");
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

// Two digits, and no 1.00: nothing inferred is certain.
export function sure(confidence) {
  if (confidence === null || confidence === undefined) return "?";
  return (confidence < 1 ? Math.min(confidence, 0.99) : confidence).toFixed(2);
}

// Times are RFC 3339 in UTC, "2026-11-30T12:19:00.449747801Z".
export function clock(time, digits = 0) {
  return time ? time.slice(11, digits ? 20 + digits : 19) : "?";
}

// The date too, unless it is that of `today`.
export function moment(time, today) {
  if (!time) return "?";
  return time.slice(0, 10) === today?.slice(0, 10)
    ? clock(time)
    : `${time.slice(0, 10)} ${clock(time)}`;
}

// "a, b, c and 5 more".
export function listed(names, most) {
  const rest = names.length - most;
  return rest > 0 ? `${names.slice(0, most).join(", ")} and ${rest} more` : names.join(", ");
}

export function words(name) {
  return String(name).replaceAll("_", " ").replaceAll("+", " + ");
}

export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const NATURAL = new Intl.Collator("en", { numeric: true });

// Order under which "10.0.0.9" comes before "10.0.0.10".
export function natural(a, b) {
  return NATURAL.compare(a, b);
}
