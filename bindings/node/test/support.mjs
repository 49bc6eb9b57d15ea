// What the tests share: the conformance cases, models, and small helpers.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Model, Runtime, Session } from 'qinfer';

/** The checkout: where this package is a copy, test.sh says where it came from. */
export const root = process.env.QINFER_CHECKOUT ?? fileURLToPath(new URL('../../..', import.meta.url));
export const cases = JSON.parse(readFileSync(join(root, 'bindings/conformance/cases.json'), 'utf8'));
export const modelPath = join(root, cases.model);

const runtime = new Runtime({ threads: 1 });
export const model = Model.loadSync(modelPath, { runtime });
export const chatModel = Model.loadSync(join(root, cases.chat_model), { runtime });

/** A session with a prompt. */
export function prompted(prompt = 'Once upon a time', options = {}) {
  const session = new Session(model, options);
  session.append(prompt);
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
