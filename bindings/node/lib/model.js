// Runtimes, models, and what needs no session: tokens, chat templates, memory plans.
'use strict';

const { addon } = require('./native.js');
const { Handle, handleOf, tokensOf, pathOf, files, noFiles } = require('./handles.js');
const { run, runSync } = require('./calls.js');
const { callback, instance, isObject, json, optionsOf, wrong } = require('./values.js');
const { kCancellable, kPlan, kPrompt, kRuntime, kTokenize, kEmbeddingText, kWeights } = require('./options.js');

class Runtime extends Handle {
  constructor(options) {
    super(addon.runtimeCreate(optionsOf(options, kRuntime, 'Runtime')));
  }

  get info() {
    return addon.runtimeInfo(handleOf(this, Runtime));
  }

  get metrics() {
    return addon.runtimeMetrics(handleOf(this, Runtime));
  }
}

const kLoadSync = { runtime: instance(Runtime), ...kWeights, progress: callback, files, ...kCancellable };
const kLoad = { ...kLoadSync, files: noFiles };

function loadJob(path, settings) {
  const runtime = settings.runtime && handleOf(settings.runtime, Runtime, 'runtime');
  return addon.modelLoad(runtime, pathOf(path), settings);
}

/** The messages of a conversation, which must be objects. */
function messagesOf(messages) {
  if (!Array.isArray(messages)) throw wrong('messages', 'an array of messages', messages);
  messages.forEach((each, at) => {
    if (!isObject(each)) throw wrong(`messages[${at}]`, 'an object such as {role, content}', each);
  });
  return messages;
}

/** A conversation as JSON, of messages and the options of a prompt. */
function conversationOf(messages, { tools, variables }) {
  const conversation = { ...variables, messages: messagesOf(messages) };
  if (tools?.length) conversation.tools = tools;
  return json(conversation, 'the conversation');
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
    const settings = optionsOf(options, kLoad, 'Model.load()');
    return new Model(kLoaded, await run(loadJob(path, settings), settings));
  }

  static loadSync(path, options) {
    const settings = optionsOf(options, kLoadSync, 'Model.loadSync()');
    return new Model(kLoaded, runSync(loadJob(path, settings), settings));
  }

  get info() {
    handleOf(this, Model);
    return this.#info;
  }

  get memory() {
    return addon.modelMemory(handleOf(this, Model));
  }

  get metadata() {
    return addon.modelMetadata(handleOf(this, Model));
  }

  get endTokens() {
    return Array.from(addon.endTokens(handleOf(this, Model)));
  }

  tokenize(text, options) {
    const handle = handleOf(this, Model);
    return Array.from(addon.tokenize(handle, text, optionsOf(options, kTokenize, 'tokenize()')));
  }

  detokenize(tokens) {
    return addon.detokenize(handleOf(this, Model), tokensOf(tokens));
  }

  token(id) {
    return addon.token(handleOf(this, Model), id);
  }

  findToken(text) {
    return addon.findToken(handleOf(this, Model), text);
  }

  get prompts() {
    return addon.prompts(handleOf(this, Model));
  }

  get defaultPrompt() {
    return addon.defaultPrompt(handleOf(this, Model)).name;
  }

  embeddingTokens(text, options) {
    const handle = handleOf(this, Model);
    const settings = optionsOf(options, kEmbeddingText, 'embeddingTokens()');
    const { tokens, cut } = addon.embeddingTokens(handle, text, settings);
    return { tokens: Array.from(tokens), cut };
  }

  chatTemplate(name) {
    return addon.chatTemplate(handleOf(this, Model), name);
  }

  renderChat(messages, options) {
    const handle = handleOf(this, Model);
    const prompt = optionsOf(options, kPrompt, 'renderChat()');
    return addon.renderChat(handle, conversationOf(messages, prompt), prompt);
  }

  tokenizeChat(messages, options) {
    const handle = handleOf(this, Model);
    const prompt = optionsOf(options, kPrompt, 'tokenizeChat()');
    return Array.from(addon.tokenizeChat(handle, conversationOf(messages, prompt), prompt));
  }
}

class Detokenizer extends Handle {
  constructor(model) {
    super(addon.detokCreate(handleOf(model, Model, 'model')));
  }

  push(token) {
    return addon.detokPush(handleOf(this, Detokenizer), token);
  }

  finish() {
    return addon.detokFinish(handleOf(this, Detokenizer));
  }
}

async function plan(path, options) {
  const settings = optionsOf(options, kPlan, 'plan()');
  return run(addon.plan(pathOf(path), settings), settings);
}

function planSync(path, options) {
  const settings = optionsOf(options, kPlan, 'planSync()');
  return runSync(addon.plan(pathOf(path), settings), settings);
}

module.exports = { Runtime, Model, Detokenizer, conversationOf, messagesOf, plan, planSync };
