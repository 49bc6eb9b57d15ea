// Runtimes, models, and what needs no session: tokens, chat templates, memory plans.
'use strict';

const { addon } = require('./native.js');
const { Handle, kHandle, tokensOf, pathOf, withFiles, refuseFiles } = require('./handles.js');
const { run, runSync } = require('./calls.js');

class Runtime extends Handle {
  constructor(options) {
    super(addon.runtimeCreate(options));
  }

  get info() {
    return addon.runtimeInfo(this[kHandle]);
  }

  get metrics() {
    return addon.runtimeMetrics(this[kHandle]);
  }
}

/** The handle of the runtime in the options, if there is one. */
function runtimeOf(runtime) {
  if (runtime === undefined || runtime === null) return undefined;
  if (!(runtime instanceof Runtime)) throw new TypeError('runtime is not a Runtime');
  return runtime[kHandle];
}

/** A conversation as JSON, of messages and the options of a ChatPrompt. */
function conversationOf(messages, options) {
  const conversation = { ...options?.variables, messages };
  if (options?.tools?.length) conversation.tools = options.tools;
  return JSON.stringify(conversation);
}

const kLoaded = Symbol('loaded');

class Model extends Handle {
  #info;

  constructor(key, handle) {
    if (key !== kLoaded) throw new TypeError('a Model is made by Model.load() or Model.loadSync()');
    super(handle);
    this.#info = Object.freeze(addon.modelInfo(handle));
  }

  static async load(path, options) {
    const { runtime } = refuseFiles(options) ?? {};
    const handle = await run(() => addon.modelLoad(runtimeOf(runtime), pathOf(path), options), options);
    return new Model(kLoaded, handle);
  }

  static loadSync(path, options) {
    const job = addon.modelLoad(runtimeOf(options?.runtime), pathOf(path), withFiles(options));
    return new Model(kLoaded, runSync(job, options));
  }

  get info() {
    return this.#info;
  }

  get memory() {
    return addon.modelMemory(this[kHandle]);
  }

  get metadata() {
    return addon.modelMetadata(this[kHandle]);
  }

  get endTokens() {
    return Array.from(addon.endTokens(this[kHandle]));
  }

  tokenize(text, options) {
    return Array.from(addon.tokenize(this[kHandle], text, options));
  }

  detokenize(tokens) {
    return addon.detokenize(this[kHandle], tokensOf(tokens));
  }

  token(id) {
    return addon.token(this[kHandle], id);
  }

  findToken(text) {
    return addon.findToken(this[kHandle], text);
  }

  chatTemplate(name) {
    return addon.chatTemplate(this[kHandle], name);
  }

  renderChat(messages, options) {
    return addon.renderChat(this[kHandle], conversationOf(messages, options), options);
  }

  tokenizeChat(messages, options) {
    return Array.from(addon.tokenizeChat(this[kHandle], conversationOf(messages, options), options));
  }
}

class Detokenizer extends Handle {
  constructor(model) {
    super(addon.detokCreate(model[kHandle]));
  }

  push(token) {
    return addon.detokPush(this[kHandle], token);
  }

  finish() {
    return addon.detokFinish(this[kHandle]);
  }
}

async function plan(path, options) {
  return run(() => addon.plan(pathOf(path), options), options);
}

function planSync(path, options) {
  return runSync(addon.plan(pathOf(path), options), options);
}

module.exports = { Runtime, Model, Detokenizer, conversationOf, plan, planSync };
