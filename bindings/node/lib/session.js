// Caches and sessions: evaluating, sampling, generating.
'use strict';

const { addon } = require('./native.js');
const { Handle, handleOf, tokensOf, pathOf, files, noFiles } = require('./handles.js');
const { run, runSync } = require('./calls.js');
const { matcherOf } = require('./grammar.js');
const { Model } = require('./model.js');
const { generate, generateOptions, generateSync, kReplyOption, pieceStream, textStream } = require('./pieces.js');
const { callback, isObject, isPlain, number, optionsOf, strings, wrong } = require('./values.js');
const {
  kCache,
  kEmbedding,
  kEvaluate,
  kGenerate,
  kSampler,
  kScore,
  kSession,
  kSnapshot,
  kStream,
  kStreamTokens,
} = require('./options.js');

const kPoolings = ['default', 'last', 'mean', 'first']; // at their QINFER_POOL_*

class KvCache extends Handle {
  constructor(model, options) {
    super(addon.cacheCreate(handleOf(model, Model, 'model'), optionsOf(options, kCache, 'KvCache')));
    this.model = model;
  }

  get stats() {
    return addon.cacheStats(handleOf(this, KvCache));
  }
}

/** The handles of a list of sessions. */
function handlesOf(sessions) {
  if (typeof sessions === 'string' || typeof sessions?.[Symbol.iterator] !== 'function')
    throw wrong('sessions', 'a list of Sessions', sessions);
  return Array.from(sessions, (session, at) => handleOf(session, Session, `sessions[${at}]`));
}

/** Evaluates the pending tokens of sessions of one cache as one batch. */
async function evaluate(sessions, options) {
  const settings = optionsOf(options, kEvaluate, 'evaluate()');
  return run(addon.evaluate(handlesOf(sessions), settings), settings);
}

function evaluateSync(sessions, options) {
  const settings = optionsOf(options, kEvaluate, 'evaluateSync()');
  return runSync(addon.evaluate(handlesOf(sessions), settings), settings);
}

/** Tokens and values of a bias, as the addon takes them. */
function biasOf(bias) {
  const isList = Array.isArray(bias) || (ArrayBuffer.isView(bias) && !(bias instanceof DataView));
  if (!(bias instanceof Map) && !isList && !isPlain(bias)) throw wrong('bias', 'a Map or an object of numbers', bias);
  const entries = bias instanceof Map ? [...bias] : Object.entries(bias);
  const tokenOf = (key) => (typeof key === 'string' && /^-?\d+$/.test(key) ? Number(key) : key);
  const tokens = tokensOf(
    entries.map(([key]) => tokenOf(key)),
    'tokens of bias',
  );
  return [tokens, Float32Array.from(entries, ([key, value]) => number(value, `bias[${String(key)}]`))];
}

/** The functions of a logits hook as the addon takes them; those of an object have it as `this`. */
function hookOf(hook) {
  if (hook === null) return null;
  if (typeof hook === 'function') return { apply: hook };
  if (!isObject(hook)) throw wrong('hook', 'a function, an object with a function apply, or null', hook);
  const functions = {};
  for (const name of ['apply', 'accept', 'rewind']) {
    const value = hook[name];
    if (name !== 'apply' && (value === undefined || value === null)) continue;
    functions[name] = callback(value, `${name} of hook`).bind(hook);
  }
  return functions;
}

/** A session that the addon has made already. */
class Made {
  constructor(handle, loaded) {
    this.handle = handle;
    this.loaded = loaded;
  }
}

const kSave = { files };
const kSaveOnThread = { files: noFiles };
const kLoad = { ...kSnapshot, files };
const kLoadOnThread = { ...kSnapshot, files: noFiles };

class Session extends Handle {
  #ownCache = null;
  #hook = null; // The addon refers to it weakly.
  #grammar = null;

  constructor(source, options) {
    if (!(source instanceof KvCache) && !(source instanceof Model)) {
      const isPath = typeof source === 'string' || source instanceof URL;
      const hint = isPath ? ': await Model.load(path), or Model.loadSync(path), gives a Model' : '';
      throw wrong('source', 'a KvCache or a Model', source, hint);
    }
    const made = options instanceof Made ? options : null;
    const settings = made === null ? optionsOf(options, kSession, 'Session') : null;
    const own = source instanceof Model ? new KvCache(source) : null;
    const cache = own ?? source;
    try {
      super(made?.handle ?? addon.sessionCreate(handleOf(cache, KvCache, 'source'), settings));
    } catch (error) {
      own?.close();
      throw error;
    }
    this.#ownCache = own;
    this.cache = cache;
    this.model = cache.model;
    this.loaded = made?.loaded;
  }

  static async load(cache, path, options) {
    const settings = optionsOf(options, kLoadOnThread, 'Session.load()');
    const job = addon.sessionLoad(handleOf(cache, KvCache, 'cache'), pathOf(path), settings);
    return Session.#restored(cache, await run(job, settings));
  }

  static loadSync(cache, path, options) {
    const settings = optionsOf(options, kLoad, 'Session.loadSync()');
    const job = addon.sessionLoad(handleOf(cache, KvCache, 'cache'), pathOf(path), settings);
    return Session.#restored(cache, runSync(job, settings));
  }

  static #restored(cache, { handle, ...loaded }) {
    return new Session(cache, new Made(handle, loaded));
  }

  close() {
    handleOf(this, Session);
    super.close();
    this.#ownCache?.close();
  }

  fork() {
    const made = new Made(addon.sessionFork(handleOf(this, Session)));
    const fork = new Session(this.cache, made);
    fork.#grammar = this.#grammar;
    return fork;
  }

  async save(path, options) {
    const settings = optionsOf(options, kSaveOnThread, 'save()');
    return run(addon.sessionSave(handleOf(this, Session), pathOf(path), settings), settings);
  }

  saveSync(path, options) {
    const settings = optionsOf(options, kSave, 'saveSync()');
    return runSync(addon.sessionSave(handleOf(this, Session), pathOf(path), settings), settings);
  }

  // ---- Tokens
  append(tokens) {
    const handle = handleOf(this, Session);
    const list = typeof tokens === 'string' ? this.model.tokenize(tokens, { special: this.length === 0 }) : tokens;
    addon.sessionAppend(handle, tokensOf(list));
  }

  setTokens(tokens) {
    return addon.sessionSetTokens(handleOf(this, Session), tokensOf(tokens));
  }

  truncate(nTokens) {
    addon.sessionTruncate(handleOf(this, Session), nTokens);
  }

  get tokens() {
    return Array.from(addon.sessionTokens(handleOf(this, Session)));
  }

  get length() {
    return addon.sessionLength(handleOf(this, Session));
  }

  get pending() {
    return addon.sessionPending(handleOf(this, Session));
  }

  get info() {
    return addon.sessionInfo(handleOf(this, Session));
  }

  get memory() {
    return addon.sessionMemory(handleOf(this, Session));
  }

  get metrics() {
    return addon.sessionMetrics(handleOf(this, Session));
  }

  // ---- Sampling
  setSampler(options) {
    addon.sessionSetSampler(handleOf(this, Session), optionsOf(options, kSampler, 'setSampler()'));
  }

  setDryBreakers(texts) {
    addon.sessionSetDryBreakers(handleOf(this, Session), strings(texts, 'texts'));
  }

  setBias(bias) {
    addon.sessionSetBias(handleOf(this, Session), ...biasOf(bias));
  }

  setLogitsHook(hook) {
    const handle = handleOf(this, Session);
    const functions = hookOf(hook);
    addon.setLogitsHook(handle, functions);
    this.#hook = functions;
    this.#grammar = null;
  }

  get logitsHook() {
    handleOf(this, Session);
    return this.#hook;
  }

  setGrammar(grammar) {
    const handle = handleOf(this, Session);
    if (grammar === null) addon.setLogitsHook(handle, null);
    else addon.setMatcher(handle, matcherOf(grammar, this.model));
    this.#hook = null;
    this.#grammar = grammar;
  }

  get grammar() {
    handleOf(this, Session);
    return this.#grammar;
  }

  async evaluate(options) {
    const settings = optionsOf(options, kEvaluate, 'evaluate()');
    return run(addon.evaluate([handleOf(this, Session)], settings), settings);
  }

  evaluateSync(options) {
    const settings = optionsOf(options, kEvaluate, 'evaluateSync()');
    return runSync(addon.evaluate([handleOf(this, Session)], settings), settings);
  }

  async sample() {
    return run(addon.sample(handleOf(this, Session)), {});
  }

  sampleSync() {
    return runSync(addon.sample(handleOf(this, Session)), {});
  }

  // ---- Results
  logits(back = 0) {
    const handle = handleOf(this, Session);
    const values = new Float32Array(this.model.info.nVocab);
    addon.copyLogits(handle, back, values);
    return values;
  }

  copyLogits(values, back = 0) {
    return addon.copyLogits(handleOf(this, Session), back, values);
  }

  logprobs(tokens, back = 0) {
    return addon.logprobs(handleOf(this, Session), tokensOf(tokens), back);
  }

  topLogprobs(n, back = 0) {
    const { tokens, logprobs } = addon.topLogprobs(handleOf(this, Session), n, back);
    return Array.from(tokens, (token, at) => ({ token, logprob: logprobs[at] }));
  }

  embedding(pooling = 'default', options) {
    const handle = handleOf(this, Session);
    const settings = optionsOf(options, kEmbedding, 'embedding()');
    const kind = kPoolings.indexOf(pooling);
    if (kind < 0) throw wrong('pooling', `one of ${kPoolings.join(', ')}`, pooling);
    const most = this.model.info.embeddingDims;
    const values = new Float32Array(Math.min(settings.dims || most, most));
    addon.embedding(handle, kind, values, settings);
    return values;
  }

  setPair(query, document, options) {
    const handle = handleOf(this, Session);
    return addon.setPair(handle, query, document, optionsOf(options, kScore, 'setPair()'));
  }

  score(options) {
    return addon.score(handleOf(this, Session), optionsOf(options, kScore, 'score()'));
  }

  // ---- Generating
  async generate(options) {
    const handle = handleOf(this, Session);
    const settings = generateOptions(options, kGenerate, 'generate()');
    return generate(handle, settings, Session.#jobs(handle, settings));
  }

  generateSync(options) {
    const handle = handleOf(this, Session);
    const settings = generateOptions(options, kGenerate, 'generateSync()');
    return generateSync(handle, settings);
  }

  stream(options) {
    const handle = handleOf(this, Session);
    const settings = optionsOf(options, { ...kStream, ...kReplyOption }, 'stream()');
    return textStream(handle, settings, Session.#jobs(handle, settings));
  }

  streamTokens(options) {
    const handle = handleOf(this, Session);
    const settings = optionsOf(options, { ...kStreamTokens, ...kReplyOption }, 'streamTokens()');
    return pieceStream(handle, settings, Session.#jobs(handle, settings));
  }

  /** What makes the job of a generation; queued: for a stream. */
  static #jobs(handle, settings) {
    return (queued) => addon.generate(handle, settings, queued);
  }
}

module.exports = { KvCache, Session, evaluate, evaluateSync };
