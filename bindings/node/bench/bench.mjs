// What a token costs more in JavaScript than in C. Generations take turns with those of baseline.c, in a process of its
// own; medians for each token and the differences are printed: of time, and of CPU time of all threads, which depends less
// on what else the machine does.
// node bench/bench.mjs BASELINE MODEL [RUNS]
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Model, Runtime, Session } from 'qinfer';

const [baselinePath, modelPath, runs = '100'] = process.argv.slice(2);
if (modelPath === undefined) {
  console.error('usage: node bench/bench.mjs BASELINE MODEL [RUNS]');
  process.exit(2);
}
const prompt = 'Once upon a time';
const maxTokens = 200;

const child = spawn(baselinePath, [modelPath, prompt, String(maxTokens)], { stdio: ['pipe', 'pipe', 'inherit'] });
const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();

/** Each kind of generation gives [nanoseconds, CPU nanoseconds] for a token. */
async function inC() {
  child.stdin.write('\n');
  const { value } = await answers.next();
  const [ns, cpuNs, tokens] = value.split(' ').map(Number);
  return [ns / tokens, cpuNs / tokens];
}

const model = Model.loadSync(modelPath, { runtime: new Runtime({ threads: 1 }) });
const session = new Session(model);
session.append(prompt);
const length = session.length;

async function timed(generate) {
  session.truncate(length);
  const cpuBegin = process.cpuUsage();
  const begin = process.hrtime.bigint();
  const tokens = await generate();
  const ns = Number(process.hrtime.bigint() - begin);
  const { user, system } = process.cpuUsage(cpuBegin);
  return [ns / tokens, ((user + system) * 1000) / tokens];
}

let bytes = 0;
const kinds = {
  'C, callback': inC,
  'JavaScript, for await over stream()': () =>
    timed(async () => {
      const stream = session.stream({ maxTokens });
      for await (const text of stream) bytes += text.length;
      return stream.result.newTokens;
    }),
  'JavaScript, generate() with onText': () =>
    timed(async () => (await session.generate({ maxTokens, onText: (text) => void (bytes += text.length) })).newTokens),
  'JavaScript, generateSync() with onText': () =>
    timed(async () => session.generateSync({ maxTokens, onText: (text) => void (bytes += text.length) }).newTokens),
};

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const samples = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
for (let round = -5; round < Number(runs); ++round) {
  for (const [kind, measure] of Object.entries(kinds)) {
    const sample = await measure();
    if (round >= 0) samples[kind].push(sample);
  }
}
child.stdin.end();
const medians = Object.entries(samples).map(([kind, pairs]) => [
  kind,
  ...[0, 1].map((at) => median(pairs.map((pair) => pair[at]))),
]);
const [, ...baseline] = medians[0];
for (const [kind, ...values] of medians) {
  const [time, cpu] = values.map(
    (ns, at) => `${ns.toFixed(0).padStart(7)} (${(ns - baseline[at]).toFixed(0).padStart(6)} over C)`,
  );
  console.log(`${kind.padEnd(38)} ns per token ${time}, of CPU time ${cpu}`);
}
