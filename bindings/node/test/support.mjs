// What the tests share: the conformance cases, models, and small helpers.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { Grammar, Model, Runtime, Session } from 'qinfer';

export const here = fileURLToPath(new URL('.', import.meta.url));

/** The checkout: where this package is a copy, test.sh says where it came from. */
export const root = process.env.QINFER_CHECKOUT ?? fileURLToPath(new URL('../../..', import.meta.url));
export const cases = JSON.parse(readFileSync(join(root, 'bindings/conformance/cases.json'), 'utf8'));
export const modelPath = join(root, cases.model);

const runtime = new Runtime({ threads: 1 });
export const model = Model.loadSync(modelPath, { runtime });
export const chatModel = Model.loadSync(join(root, cases.chat_model), { runtime });

/** Why there are no grammars, or false. */
function whyNoGrammars() {
  try {
    Grammar.regexSync(model, 'a').close();
    return false;
  } catch (error) {
    if (error.code !== 'QINFER_E_NOT_FOUND') throw error;
    return error.message;
  }
}

/** Options of a test that needs libqinfer_grammar: it is skipped where that is not. */
export const grammars = { skip: whyNoGrammars() };

/** A session with a prompt. */
export function prompted(prompt = 'Once upon a time', options = {}, source = model) {
  const session = new Session(source, options);
  session.append(prompt);
  return session;
}

/** A session with a prompt that never draws an end token. */
export function lasting(source = model) {
  const session = prompted(undefined, undefined, source);
  session.setBias(new Map(model.endTokens.map((token) => [token, -Infinity])));
  return session;
}

/** Asserts that a call fails with that status; gives the error. */
export async function failsWith(code, work) {
  let failure;
  await assert.rejects(
    async () => work(),
    (error) => {
      failure = error;
      return true;
    },
  );
  assert.equal(failure.name, 'QinferError', failure.stack);
  assert.equal(failure.code, code, failure.stack);
  return failure;
}

/** A folder that is removed after the test. */
export function temporaryFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'qinfer-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** Files in memory; `opened` counts those that are open. */
export class MemoryStore {
  files = new Map();
  opened = 0;
  open = (name, writing) => {
    if (!this.files.has(name)) {
      if (!writing) return null;
      this.files.set(name, new Uint8Array(0));
    }
    this.opened++;
    return new MemoryFile(this, name);
  };
}

class MemoryFile {
  constructor(store, name) {
    this.store = store;
    this.name = name;
  }
  get bytes() {
    return this.store.files.get(this.name);
  }
  resize(n) {
    const bytes = new Uint8Array(n);
    bytes.set(this.bytes.subarray(0, n));
    this.store.files.set(this.name, bytes);
  }
  size() {
    return this.bytes.length;
  }
  readAt(offset, n) {
    return this.bytes.subarray(offset, offset + n);
  }
  writeAt(offset, bytes) {
    if (offset + bytes.length > this.bytes.length) this.resize(offset + bytes.length);
    this.bytes.set(bytes, offset);
  }
  sync() {}
  truncate(n) {
    this.resize(n);
  }
  close() {
    this.store.opened--;
  }
}

/** Runs a module in a process of its own; gives [exit code, signal, standard output, standard error]. */
export async function inProcess(code) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { cwd: here });
  const texts = ['', ''];
  child.stdout.on('data', (data) => (texts[0] += data));
  child.stderr.on('data', (data) => (texts[1] += data));
  const [status, signal] = await once(child, 'close');
  return [status, signal, ...texts];
}

/** A model and a session that never draws an end token, for such a process. */
export const prelude = `
  import { Model, Runtime, Session } from 'qinfer';
  const model = Model.loadSync(${JSON.stringify(modelPath)}, { runtime: new Runtime({ threads: 1 }) });
  const session = new Session(model);
  session.append('Once upon a time');
  session.setBias(new Map(model.endTokens.map((token) => [token, -Infinity])));
`;

/** A worker thread that generates; its last message is the text. */
export function worker(code) {
  return new Worker(`import { parentPort } from 'node:worker_threads';${prelude}${code}`, {
    eval: true,
    execArgv: ['--input-type=module'],
  });
}
