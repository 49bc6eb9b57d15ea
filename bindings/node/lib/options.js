// The options that there are, and what each may be. index.d.ts says what they mean.
'use strict';

const { Cancel } = require('./calls.js');
const { boolean, callback, instance, integer, jsonArray, jsonObject, nested } = require('./values.js');
const { milliseconds, number, signal, string, strings, u32, u64 } = require('./values.js');

const kMostTopLogprobs = 64; // qinfer_generate_options.n_top

const kCancellable = { signal, cancel: instance(Cancel) };

const kRuntime = { threads: u32, cpuTarget: string, exact: boolean, tiles: boolean, spinUs: u32 };

/** Of a load and of the plan of one. */
const kWeights = {
  weights: boolean,
  mmap: boolean,
  lock: boolean,
  verify: boolean,
  embedRows: boolean,
  weightFormat: string,
  maxBatchTokens: u32,
  memoryBudget: u64,
  maxContext: u32,
  budgetPrivate: boolean,
  pack: boolean,
  packedPath: string,
};

const kCache = {
  kvType: string,
  blockTokens: u32,
  budgetBytes: u64,
  budgetBlocks: u64,
  prefix: boolean,
  commit: boolean,
  contiguous: boolean,
};

const kSession = { maxTokens: u32, maxLogits: u32, maxDraft: u32, embeddings: boolean };

const kPlan = {
  runtime: nested(kRuntime),
  load: nested(kWeights),
  cache: nested(kCache),
  session: nested(kSession),
  ...kCancellable,
};

const kTokenize = { special: boolean, parseSpecial: boolean };

const kEmbeddingText = {
  prompt: string,
  promptText: string,
  truncate: boolean,
  parseSpecial: boolean,
  maxTokens: u32,
};

const kEmbedding = { scaled: boolean, dims: u32 };

const kScore = {
  template: string,
  templateText: string,
  instruction: string,
  yes: string,
  no: string,
  truncate: boolean,
  raw: boolean,
  maxTokens: u32,
};

const kPrompt = {
  tools: jsonArray,
  generationPrompt: boolean,
  plainContent: boolean,
  template: string,
  templateName: string,
  now: string,
  variables: jsonObject,
};

const kReply = { ...kPrompt, reasoning: boolean };

const kSampler = {
  temperature: number,
  topK: u32,
  topP: number,
  minP: number,
  repeatPenalty: number,
  frequencyPenalty: number,
  presencePenalty: number,
  penaltyTokens: u32,
  seed: u64,
  typicalP: number,
  topNSigma: number,
  dynatempRange: number,
  dynatempExponent: number,
  xtcProbability: number,
  xtcThreshold: number,
  dryMultiplier: number,
  dryBase: number,
  dryAllowedLength: u32,
  dryPenaltyTokens: u32,
  mirostat: u32,
  mirostatTau: number,
  mirostatEta: number,
  steps: string,
};

const kGrammar = {
  anySpace: boolean,
  maxSourceBytes: u64,
  maxDepth: u32,
  maxStates: u32,
  maxSymbols: u32,
  maxRowItems: u32,
  compileWork: u64,
  maskWork: u64,
};

const kEvaluate = { maxTokens: u32, keepLogits: u32, logits: boolean, ...kCancellable };
const kKept = { tenant: string, ...kCancellable };
const kSnapshot = { anyBits: boolean, noRecovery: boolean };

const kStream = { maxTokens: u32, maxReasoningTokens: u32, stop: strings, ahead: u32, ...kCancellable };
const kStreamTokens = { ...kStream, topLogprobs: integer(0, kMostTopLogprobs) };
const kGenerate = { ...kStreamTokens, onText: callback, onToken: callback };

const kEngine = { maxRunning: u32, maxWaiting: u32, stepMs: milliseconds, park: string, parkBytes: u64 };
/** How a request shares an engine with others. */
const kRequest = { priority: integer(-(2 ** 31), 2 ** 31 - 1), key: u64, timeoutMs: u32 };

const kTurn = { maxTokens: u32, maxReasoningTokens: u32, reasoning: boolean, ahead: u32, ...kCancellable };

module.exports = {
  kCancellable,
  kRuntime,
  kWeights,
  kCache,
  kSession,
  kPlan,
  kTokenize,
  kEmbeddingText,
  kEmbedding,
  kScore,
  kPrompt,
  kReply,
  kSampler,
  kGrammar,
  kEvaluate,
  kKept,
  kSnapshot,
  kStream,
  kStreamTokens,
  kGenerate,
  kEngine,
  kRequest,
  kTurn,
};
