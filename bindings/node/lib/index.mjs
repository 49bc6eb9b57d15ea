// The same as index.js, for ES modules.
import qinfer from './index.js';

export const {
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
} = qinfer;
