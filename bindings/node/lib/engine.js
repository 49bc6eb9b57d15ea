// Engines: the generations of many requests, drawn together on a thread of the engine.
'use strict';

const { addon } = require('./native.js');
const { Handle, handleOf } = require('./handles.js');
const { Model } = require('./model.js');
const { KvCache, Session } = require('./session.js');
const { generate, generateOptions, kReplyOption, pieceStream, textStream } = require('./pieces.js');
const { optionsOf } = require('./values.js');
const { kEngine, kGenerate, kRequest, kStream, kStreamTokens } = require('./options.js');

/** Options of a request: those of a generation but `ahead`, for an engine waits for no reader. */
function requestOptions({ ahead, ...kinds }) {
  return { ...kinds, ...kRequest };
}

const kRequestStream = { ...requestOptions(kStream), ...kReplyOption };
const kRequestStreamTokens = { ...requestOptions(kStreamTokens), ...kReplyOption };
const kRequestGenerate = requestOptions(kGenerate);

class Engine extends Handle {
  constructor(cache, options) {
    const handle = handleOf(cache, KvCache, 'cache');
    const settings = optionsOf(options, kEngine, 'Engine');
    super(addon.engineCreate(handle, handleOf(cache.model, Model, 'the model of cache'), settings));
    this.cache = cache;
    this.model = cache.model;
  }

  get stats() {
    return addon.engineStats(handleOf(this, Engine));
  }

  async generate(session, options) {
    const engine = handleOf(this, Engine);
    const handle = handleOf(session, Session, 'session');
    const settings = generateOptions(options, kRequestGenerate, 'generate()');
    return generate(handle, settings, Engine.#jobs(engine, handle, settings));
  }

  stream(session, options) {
    const engine = handleOf(this, Engine);
    const handle = handleOf(session, Session, 'session');
    const settings = optionsOf(options, kRequestStream, 'stream()');
    return textStream(handle, settings, Engine.#jobs(engine, handle, settings));
  }

  streamTokens(session, options) {
    const engine = handleOf(this, Engine);
    const handle = handleOf(session, Session, 'session');
    const settings = optionsOf(options, kRequestStreamTokens, 'streamTokens()');
    return pieceStream(handle, settings, Engine.#jobs(engine, handle, settings));
  }

  /** What makes the job of a request; queued: for a stream. */
  static #jobs(engine, handle, settings) {
    return (queued) => addon.engineRequest(engine, handle, settings, queued);
  }
}

module.exports = { Engine };
