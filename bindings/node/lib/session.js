// Caches and sessions: evaluating, sampling, generating.
'use strict';

const { addon } = require('./native.js');
const { Handle, kHandle, tokensOf, pathOf, withFiles, refuseFiles } = require('./handles.js');
const { run, runSync } = require('./calls.js');
const { Model } = require('./model.js');
const { Stream } = require('./stream.js');

const kPoolings = ['default', 'last', 'mean', 'first']; // at their QINFER_POOL_*
const kHandleOf = Symbol('of a handle');

class KvCache extends Handle {
  constructor(model, options) {
    super(addon.cacheCreate(model[kHandle], options));
    this.model = model;
  }

  get stats() {
    return addon.cacheStats(this[kHandle]);
  }
}

function evaluateJob(sessions, options) {
  return addon.evaluate(
    Array.from(sessions, (session) => session[kHandle]),
    options,
  );
}

/** Evaluates the pending tokens of sessions of one cache as one batch. */
async function evaluate(sessions, options) {
  return run(() => evaluateJob(sessions, options), options);
}

function evaluateSync(sessions, options) {
  return runSync(evaluateJob(sessions, options), options);
}

/** The options of a generation as the addon takes them. */
function generateOptions({ maxTokens, stop, topLogprobs, ahead } = {}) {
  return { maxTokens, stop: typeof stop === 'string' ? [stop] : stop, top: topLogprobs, ahead };
}

function textOf(batch, at) {
  return batch.texts[at] === '' ? undefined : batch.texts[at];
}

function pieceOf(batch, at) {
  return { token: batch.tokens[at], text: batch.texts[at], ...batch.infos?.[at] };
}

/** What the callbacks of a generation say about a piece: false ends it. */
function tell(piece, { onToken, onText }) {
  const first = onToken?.(piece);
  return first === false || piece.text === '' || !onText ? first : onText(piece.text);
}

/** The same where they may be asynchronous: one after the other. */
async function tellAsync(piece, { onToken, onText }) {
  const first = await onToken?.(piece);
  return first === false || piece.text === '' || !onText ? first : await onText(piece.text);
}

class Session extends Handle {
  #ownCache = null;
  #hook = null; // The addon refers to it weakly.

  constructor(source, options) {
    const cache = source instanceof Model ? new KvCache(source) : source;
    super(options?.[kHandleOf] ?? addon.sessionCreate(cache[kHandle], options));
    if (source instanceof Model) this.#ownCache = cache;
    this.cache = cache;
    this.model = cache.model;
    this.loaded = options?.loaded;
  }

  static async load(cache, path, options) {
    const found = await run(() => addon.sessionLoad(cache[kHandle], pathOf(path), refuseFiles(options)), options);
    return Session.#restored(cache, found);
  }

  static loadSync(cache, path, options) {
    return Session.#restored(
      cache,
      runSync(addon.sessionLoad(cache[kHandle], pathOf(path), withFiles(options)), options),
    );
  }

  static #restored(cache, { handle, ...loaded }) {
    return new Session(cache, { [kHandleOf]: handle, loaded });
  }

  close() {
    super.close();
    this.#ownCache?.close();
  }

  fork() {
    return new Session(this.cache, { [kHandleOf]: addon.sessionFork(this[kHandle]) });
  }

  async save(path, options) {
    return run(() => addon.sessionSave(this[kHandle], pathOf(path), refuseFiles(options)), options);
  }

  saveSync(path, options) {
    return runSync(addon.sessionSave(this[kHandle], pathOf(path), withFiles(options)), options);
  }

  // ---- Tokens
  append(tokens) {
    const special = typeof tokens === 'string' && this.length === 0;
    addon.sessionAppend(
      this[kHandle],
      tokensOf(typeof tokens === 'string' ? this.model.tokenize(tokens, { special }) : tokens),
    );
  }

  setTokens(tokens) {
    return addon.sessionSetTokens(this[kHandle], tokensOf(tokens));
  }

  truncate(nTokens) {
    addon.sessionTruncate(this[kHandle], nTokens);
  }

  get tokens() {
    return Array.from(addon.sessionTokens(this[kHandle]));
  }

  get length() {
    return addon.sessionLength(this[kHandle]);
  }

  get pending() {
    return addon.sessionPending(this[kHandle]);
  }

  get info() {
    return addon.sessionInfo(this[kHandle]);
  }

  get memory() {
    return addon.sessionMemory(this[kHandle]);
  }

  get metrics() {
    return addon.sessionMetrics(this[kHandle]);
  }

  // ---- Sampling
  setSampler(options) {
    addon.sessionSetSampler(this[kHandle], options);
  }

  setBias(bias) {
    const entries = bias instanceof Map ? [...bias] : Object.entries(bias);
    const tokens = tokensOf(entries.map(([token]) => Number(token)));
    addon.sessionSetBias(
      this[kHandle],
      tokens,
      Float32Array.from(entries, ([, value]) => value),
    );
  }

  setLogitsHook(hook) {
    const { apply, accept, rewind } = typeof hook === 'function' ? { apply: hook } : (hook ?? {});
    const functions = hook ? { apply, accept, rewind } : null;
    addon.setLogitsHook(this[kHandle], functions);
    this.#hook = functions;
  }

  get logitsHook() {
    return this.#hook;
  }

  async evaluate(options) {
    return evaluate([this], options);
  }

  evaluateSync(options) {
    return evaluateSync([this], options);
  }

  async sample() {
    return run(() => addon.sample(this[kHandle]));
  }

  sampleSync() {
    return runSync(addon.sample(this[kHandle]));
  }

  // ---- Results
  logits(back = 0) {
    const values = new Float32Array(this.model.info.nVocab);
    this.copyLogits(values, back);
    return values;
  }

  copyLogits(values, back = 0) {
    return addon.copyLogits(this[kHandle], back, values);
  }

  logprobs(tokens, back = 0) {
    return addon.logprobs(this[kHandle], tokensOf(tokens), back);
  }

  topLogprobs(n, back = 0) {
    const { tokens, logprobs } = addon.topLogprobs(this[kHandle], n, back);
    return Array.from(tokens, (token, at) => ({ token, logprob: logprobs[at] }));
  }

  embedding(pooling = 'default') {
    const kind = kPoolings.indexOf(pooling);
    if (kind < 0) throw new TypeError(`pooling must be one of ${kPoolings.join(', ')}`);
    const values = new Float32Array(this.model.info.nEmbd);
    addon.embedding(this[kHandle], kind, values);
    return values;
  }

  // ---- Generating
  async generate(options = {}) {
    if (!options.onText && !options.onToken)
      return run(() => addon.generate(this[kHandle], generateOptions(options), false), options);
    const pieces = this.streamTokens(options);
    for await (const piece of pieces) {
      if ((await tellAsync(piece, options)) === false) break;
    }
    return pieces.result;
  }

  generateSync(options = {}) {
    const onPiece = (token, text, info) => tell({ token, text, ...info }, options);
    const told = options.onText || options.onToken ? onPiece : undefined;
    return runSync(addon.generate(this[kHandle], generateOptions(options), false, told), options);
  }

  stream(options) {
    return new Stream(() => addon.generate(this[kHandle], generateOptions(options), true), options, textOf);
  }

  streamTokens(options) {
    return new Stream(() => addon.generate(this[kHandle], generateOptions(options), true), options, pieceOf);
  }
}

module.exports = { KvCache, Session, evaluate, evaluateSync };
