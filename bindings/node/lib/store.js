// Stores: keys and values in a folder, for conversations that go on later.
'use strict';

const { addon } = require('./native.js');
const { Handle, handleOf, pathOf, tokensOf } = require('./handles.js');
const { run, runSync } = require('./calls.js');
const { KvCache, Session } = require('./session.js');
const { optionsOf, u64 } = require('./values.js');
const { kKept } = require('./options.js');

class KvStore extends Handle {
  constructor(cache, path, maxBytes) {
    super(addon.storeOpen(handleOf(cache, KvCache, 'cache'), pathOf(path), u64(maxBytes, 'maxBytes')));
    this.cache = cache;
    this.model = cache.model;
  }

  get stats() {
    return addon.storeStats(handleOf(this, KvStore));
  }

  async keep(session, options) {
    const settings = optionsOf(options, kKept, 'keep()');
    return run(KvStore.#kept(this, session, settings), settings);
  }

  keepSync(session, options) {
    const settings = optionsOf(options, kKept, 'keepSync()');
    return runSync(KvStore.#kept(this, session, settings), settings);
  }

  async fetch(tokens, options) {
    const settings = optionsOf(options, kKept, 'fetch()');
    return run(KvStore.#fetched(this, tokens, settings), settings);
  }

  fetchSync(tokens, options) {
    const settings = optionsOf(options, kKept, 'fetchSync()');
    return runSync(KvStore.#fetched(this, tokens, settings), settings);
  }

  static #kept(store, session, settings) {
    return addon.storeKeep(handleOf(store, KvStore), handleOf(session, Session, 'session'), settings);
  }

  static #fetched(store, tokens, settings) {
    return addon.storeFetch(handleOf(store, KvStore), tokensOf(tokens), settings);
  }
}

module.exports = { KvStore };
