// qinfer: language models on CPUs, in the process. index.mjs has the same for ES modules, index.d.ts says what it is.
'use strict';

const { addon, QinferError } = require('./native.js');
const { Cancel } = require('./calls.js');
const { Runtime, Model, Detokenizer, plan, planSync } = require('./model.js');
const { KvCache, Session, evaluate, evaluateSync } = require('./session.js');
const { Grammar, Matcher } = require('./grammar.js');
const { KvStore } = require('./store.js');
const { Engine } = require('./engine.js');
const { Reply } = require('./reply.js');
const { Chat } = require('./chat.js');

const version = () => addon.version();
const buildInfo = () => addon.buildInfo();
const cpuInfo = () => addon.cpuInfo();

module.exports = {
  version,
  buildInfo,
  cpuInfo,
  QinferError,
  Cancel,
  Runtime,
  Model,
  Detokenizer,
  plan,
  planSync,
  KvCache,
  Session,
  evaluate,
  evaluateSync,
  Grammar,
  Matcher,
  KvStore,
  Engine,
  Chat,
  Reply,
};
