// Decodes pprof files with npm's `pprof-format`, and checks processes, threads, and processor time
// by function.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { Profile } from "pprof-format";

import { busiest, near } from "./reference.mjs";

/**
 * Returns for each thread the processor time of its functions in microseconds, its samples and its
 * time.
 */
function read(bytes) {
  const profile = Profile.decode(gunzipSync(bytes));
  const text = (index) => profile.stringTable.strings[Number(index)];
  const functions = new Map(profile.function.map((f) => [String(f.id), text(f.name)]));
  const locations = new Map(profile.location.map((l) => [String(l.id), functions.get(String(l.line[0].functionId))]));
  const types = profile.sampleType.map((type) => `${text(type.type)}/${text(type.unit)}`);
  const threads = new Map();
  for (const sample of profile.sample) {
    const labels = new Map(sample.label.map((label) => [text(label.key), Number(label.str) > 0 ? text(label.str) : Number(label.num)]));
    const key = `${labels.get("process")} / ${labels.get("thread")} ${labels.get("pid")} ${labels.get("tid")}`;
    const thread = threads.get(key) ?? { cpu: new Map(), samples: 0, wall: 0 };
    threads.set(key, thread);
    const [samples, wall, cpu] = sample.value.map(Number);
    const leaf = locations.get(String(sample.locationId[0]));
    thread.cpu.set(leaf, (thread.cpu.get(leaf) ?? 0) + cpu / 1000);
    thread.samples += samples;
    thread.wall += wall / 1000;
  }
  return { types, threads, mappings: profile.mapping.map((mapping) => text(mapping.filename)) };
}

/** Returns the number of samples of each thread of a profile. */
function sampleCounts(file) {
  const bytes = readFileSync(file);
  const { threads } = JSON.parse(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
  return new Map(threads.map((thread) => [`${thread.pid} ${thread.tid}`, thread.samples.length]));
}

export async function check({ directory, profile, reference }, say) {
  const counts = sampleCounts(profile);
  const { types, threads, mappings } = read(readFileSync(join(directory, "profile.pb.gz")));
  say(types.join(" ") === "samples/count wall/nanoseconds cpu/nanoseconds", `pprof: samples, time, processor time (${types})`);
  say(mappings.some((name) => name.includes("libtenths")), `pprof: libraries are mappings (${mappings.length})`);
  for (const expected of reference.filter((thread) => thread.samples > 100)) {
    const thread = threads.get(`${expected.name} ${expected.pid} ${expected.tid}`);
    const samples = counts.get(`${expected.pid} ${expected.tid}`);
    say(thread?.samples === samples, `pprof: "${expected.name}" has ${samples} samples (${thread?.samples})`);
    say(near(thread?.wall, expected.total, expected.total, 0.01), `pprof: "${expected.name}" has all its time`);
    for (const [name, us] of busiest(expected, 0.05)) {
      const cpu = thread?.cpu.get(name);
      say(near(cpu, us, expected.total, 0.02), `pprof: "${expected.name}": ${name} has ${us} µs of processor time (${Math.round(cpu)})`);
    }
  }
}
