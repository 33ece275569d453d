// Why no job is seen, in plain words, from what the service says of itself.

import { allExporters } from "./exporters.js";
import { bytes, listed, plural } from "./units.js";

// What is missing, and what to do about it, the first cause first.
export function missing(answer, unassigned) {
  const { service, window } = answer;
  const exporters = allExporters(answer);
  const found = [];
  const say = (what, remedy) => found.push({ what, remedy });
  if (service && service.datagrams === 0) {
    say(
      "No datagram has come yet.",
      "Name this host as the sFlow collector of the switches, and let UDP through to its port.",
    );
    return found;
  }
  const refused = service?.refused_datagrams ?? 0;
  if (refused > 0) {
    say(
      `${plural(refused, "datagram")} came from addresses outside the allow-list.`,
      "Add the switches' networks to listen.allow.",
    );
  }
  const failed = service?.decode_errors ?? 0;
  if (failed > 0)
    say(
      `${plural(failed, "datagram or sample")} could not be read.`,
      "The page of exporters says which, and why.",
    );
  const lost = (service?.kernel_drops ?? 0) + (service?.backlog_drops ?? 0);
  if (lost > 0)
    say(
      `${plural(lost, "datagram")} got lost in this host.`,
      "A larger listen.receive_buffer_bytes or a lower sampling density helps.",
    );
  if (service && service.flow_samples === 0) {
    say(
      "Datagrams come, but no flow sample is among them.",
      "Set a sampling rate on the ports that lead to hosts.",
    );
    return found;
  }
  const named = (state) => {
    const names = exporters
      .filter((exporter) => exporter.state === state)
      .map((exporter) => exporter.agent);
    return listed(names, 4);
  };
  if (named("counters_only"))
    say(
      `Only counters come from ${named("counters_only")}.`,
      "Set a sampling rate on their ports.",
    );
  if (named("rate_unknown"))
    say(
      `The sampling rate of ${named("rate_unknown")} is unknown.`,
      "Volumes by count are missing until their samples tell it.",
    );
  if (!window) {
    say(
      "Samples come; the first window is not analysed yet.",
      "A job shows after five of its iterations.",
    );
    return found;
  }
  const classes = Object.entries(unassigned?.by_class ?? {}).filter(([, volume]) => volume > 0);
  if (classes.length) {
    const list = classes.map(([name, volume]) => `${name} ${bytes(volume)}`).join(", ");
    say(
      `There is traffic, but none of a training job: ${list}.`,
      "A job is what repeats the same communication at least five times.",
    );
  } else {
    say(
      "Nothing in this window repeats as a training job does.",
      "A job shows after five of its iterations.",
    );
  }
  return found;
}
