// The types of qinfer for Node.js. Names and rules are those of the C ABI (qinfer.h); every failure of the library is a
// QinferError. An argument of a wrong type, or an option that there is not, is a TypeError that names it. Options are
// read once, when a call begins. Bytes and nanoseconds are numbers, exact up to 2^53.
/// <reference types="node" />
/// <reference lib="esnext.disposable" />

/** The version of the library that is loaded: "0.2.0". */
export function version(): string;
/** Commit, compiler, flags and kernel sets of the library. */
export function buildInfo(): string;
export function cpuInfo(): CpuInfo;

export interface CpuInfo {
  modelName: string;
  /** All that CPU and operating system offer, in words separated by spaces. */
  features: string;
  /** The kernel set that is chosen by default. */
  target: string;
  nPhysicalCores: number;
  nLogicalCores: number;
  nNumaNodes: number;
  l1dBytes: number;
  l2Bytes: number;
  l3Bytes: number;
}

/** A call that failed; message says what was wrong. */
export class QinferError extends Error {
  constructor(status: number, message: string, detail?: number);
  /** The QINFER_E_* constant, negative. */
  readonly status: number;
  /** Its name: "QINFER_E_KV_FULL". */
  readonly code: string;
  /** What the constant says in qinfer.h (an index, bytes, errno), else 0. */
  readonly detail: number;
}

/** An object of the library. It is freed by close(), or some time after nothing refers to it. */
export interface Handle extends Disposable {
  /** Frees it, after the calls that are using it; nothing the second time. Calls on it then are QINFER_E_STATE. */
  close(): void;
  readonly closed: boolean;
}

/** A request to stop that can be taken back, for any number of calls. They fail with QINFER_E_CANCELLED. */
export class Cancel {
  request(): void;
  reset(): void;
  readonly requested: boolean;
}

/** What ends a call that takes long, before it is over. */
export interface Cancellable {
  /** The call then throws the signal's reason. */
  signal?: AbortSignal;
  cancel?: Cancel;
}

/**
 * An open file of the caller. Functions that fail throw, and what they throw comes out of the call; or they return a
 * negative QINFER_E_* status, with which the call then fails.
 */
export interface HostFile {
  size(): number | bigint;
  /** All n bytes from offset, which are there. */
  readAt(offset: number, n: number): Uint8Array | number;
  /** Only of files that were opened for writing, as the next two. The bytes are the file's to keep. */
  writeAt?(offset: number, bytes: Uint8Array): void | number;
  /** Returns when all that was written will last. */
  sync?(): void | number;
  truncate?(nBytes: number): void | number;
  close(): void | number;
}

/**
 * Opens a file that is taken from somewhere else than the operating system's files. Null, or an error whose code is
 * "ENOENT", says that there is none; one that is opened for writing is made. Of a model first the path itself is asked
 * for and, if there is none, "PATH/config.json" and so on.
 */
export type OpenFile = (name: string, writing: boolean) => HostFile | null | number;

/** Only for synchronous calls, because the callbacks must answer at once. */
export interface WithFiles {
  files?: OpenFile;
}

export interface RuntimeOptions {
  /** Compute threads, the caller's included; 0 = physical cores. */
  threads?: number;
  /** A kernel set by name. */
  cpuTarget?: string;
  /** f32 activations and sums. */
  exact?: boolean;
  /** Whether the system may be asked for tiles of AMX; the default is true. */
  tiles?: boolean;
  /** How long workers spin between evaluations; 0 = they sleep at once. */
  spinUs?: number;
}

export interface Runtime extends Handle {}
/** Threads and kernels. Evaluations on one runtime run one after another, each on all of its threads. */
export class Runtime {
  constructor(options?: RuntimeOptions);
  readonly info: { nThreads: number; target: string };
  readonly metrics: Metrics;
}

export interface LoadOptions extends Cancellable {
  /** Without it the model gets its own runtime. */
  runtime?: Runtime;
  /** False: metadata and tokenizer only. */
  weights?: boolean;
  /** False: weights are read into memory instead of mapped. */
  mmap?: boolean;
  lock?: boolean;
  verify?: boolean;
  embedRows?: boolean;
  weightFormat?: string;
  maxBatchTokens?: number;
  /** Bytes for the model, its caches and sessions; 0 = no bound. */
  memoryBudget?: number | bigint;
  /** Tokens that sessions will have at most; 0 = any. Matters to models with longrope. */
  maxContext?: number;
  /** The budget does not count what is mapped. */
  budgetPrivate?: boolean;
  /** Weights are copied into the layout that the kernel set multiplies fastest. */
  pack?: boolean;
  /** A packed file of this model, used if it is up to date. */
  packedPath?: string;
  /** Called about every 16 MiB; the loading thread waits for it. False ends the call with QINFER_E_CANCELLED. */
  progress?: (doneBytes: number, totalBytes: number) => boolean | void;
}

export interface ModelInfo {
  architecture: string;
  name: string;
  weightFormat: string;
  kernelSet: string;
  nParams: number;
  nActiveParams: number;
  fileBytes: number;
  nVocab: number;
  nLayers: number;
  nEmbd: number;
  nHeads: number;
  nKvHeads: number;
  headDim: number;
  contextTokens: number;
  maxTokenBytes: number;
  /** -1 = none */
  bosToken: number;
  nExperts: number;
  nActiveExperts: number;
  nExpertLayers: number;
  expertFfn: number;
  /** Values of an embedding, and the most tokens of a text that one is made of. */
  embeddingDims: number;
  embeddingTokens: number;
  /** The files say how pairs of texts are scored. */
  scores: boolean;
  encoder: boolean;
  tiedEmbeddings: boolean;
  tokenizer: boolean;
}

export interface Memory {
  weightsMapped: number;
  weightsPrivate: number;
  tables: number;
  scratch: number;
  kvPerBlock: number;
  kvCacheBytes: number;
  perSession: number;
  loadPeak: number;
  total: number;
  kvLists: number;
  kvPerToken: number;
  kvPerSession: number;
  systemLimit: number;
  systemAvailable: number;
  activeWeightBytes: number;
  expertWeightBytes: number;
}

export interface Token {
  id: number;
  /** Perhaps a part of a character. */
  bytes: Uint8Array;
  control: boolean;
  /** Ends a generation. */
  end: boolean;
}

/** A message as the model's template wants it. */
export type Message = Record<string, unknown>;

/** How a prompt is made of a conversation. */
export interface PromptOptions {
  tools?: readonly unknown[];
  /** The reply begins at the end of the prompt; default true. */
  generationPrompt?: boolean;
  /** No added tokens at all in what messages say. */
  plainContent?: boolean;
  /** A template instead of the model's. */
  template?: string;
  /** One of the model's templates. */
  templateName?: string;
  /** What the template is told the date is: "2026-11-22" or "2026-11-22T15:04:05". */
  now?: string;
  /** Other variables of the template, such as enable_thinking. */
  variables?: Record<string, unknown>;
}

export interface EmbeddingTextOptions {
  /** The name of one of the model's prompts, which goes before the text. */
  prompt?: string;
  /** This goes before it instead. */
  promptText?: string;
  /** A text that is too long is cut, otherwise it is an error. */
  truncate?: boolean;
  parseSpecial?: boolean;
  maxTokens?: number;
}

/** How a pair of texts is written and what its score is; what is missing is as the model's files say. */
export interface ScoreOptions {
  /** Where the files do not say how a pair is written: "qwen3-reranker". */
  template?: string;
  /** Another one, in which {instruction}, {query} and, last, {document} stand for texts. */
  templateText?: string;
  instruction?: string;
  /** The tokens whose logits make the score. */
  yes?: string;
  no?: string;
  /** A document that is too long is cut, otherwise it is an error. */
  truncate?: boolean;
  /** The score itself, and not its sigmoid. */
  raw?: boolean;
  maxTokens?: number;
}

export interface Model extends Handle {}
/** Weights, tokenizer and metadata; immutable, and for any number of sessions. */
export class Model {
  private constructor();
  /** path: a directory of a checkpoint, a GGUF file, or a packed file. */
  static load(path: string | URL, options?: LoadOptions): Promise<Model>;
  static loadSync(path: string | URL, options?: LoadOptions & WithFiles): Model;
  readonly info: Readonly<ModelInfo>;
  readonly memory: Memory;
  readonly metadata: Record<string, string>;
  readonly endTokens: number[];
  /** special: add what the tokenizer puts around a text; default true. parseSpecial: "<|im_end|>" becomes one token. */
  tokenize(text: string, options?: { special?: boolean; parseSpecial?: boolean }): number[];
  detokenize(tokens: Iterable<number>): string;
  token(id: number): Token;
  /** The token whose entry in the tokenizer is this text. */
  findToken(text: string): number;
  /** What the files have to go before a text, by what the text is: query, document. */
  readonly prompts: Record<string, string>;
  /** The name of the prompt that the files call the default. Nothing goes before a text unless it is asked for. */
  readonly defaultPrompt?: string;
  /** The tokens that the embedding of a text is made of, and how many were cut off. */
  embeddingTokens(text: string, options?: EmbeddingTextOptions): { tokens: number[]; cut: number };
  chatTemplate(name?: string): string;
  renderChat(messages: readonly Message[], options?: PromptOptions): string;
  /** Nothing that a message says becomes a control token. */
  tokenizeChat(messages: readonly Message[], options?: PromptOptions): number[];
}

export interface Detokenizer extends Handle {}
/** Text from tokens, one after another: whole characters, the rest is held back. */
export class Detokenizer {
  constructor(model: Model);
  push(token: number): string;
  /** What is held back; then it starts over. */
  finish(): string;
}

export interface PlanOptions extends Cancellable {
  runtime?: RuntimeOptions;
  load?: Omit<LoadOptions, 'runtime' | 'progress' | keyof Cancellable>;
  cache?: CacheOptions;
  session?: SessionOptions;
}
/** What loading and creating with these options will take, from the headers of the files. */
export function plan(path: string | URL, options?: PlanOptions): Promise<Memory>;
export function planSync(path: string | URL, options?: PlanOptions): Memory;

export interface CacheOptions {
  kvType?: 'default' | 'f32' | 'f16' | 'bf16';
  /** Tokens of a block: a power of two from 32 to 256. */
  blockTokens?: number;
  /** The smaller of the two budgets counts; without one there is room for one session of the model's context. */
  budgetBytes?: number | bigint;
  budgetBlocks?: number | bigint;
  /** Freed blocks serve sessions that begin alike. */
  prefix?: boolean;
  commit?: boolean;
  contiguous?: boolean;
}

export interface KvCache extends Handle {}
/** Keys and values of sessions, in blocks. One cache serves any number of sessions. */
export class KvCache {
  constructor(model: Model, options?: CacheOptions);
  readonly model: Model;
  readonly stats: {
    blockTokens: number;
    blocksTotal: number;
    blocksUsed: number;
    blocksShared: number;
    blocksCached: number;
    bytesReserved: number;
    bytesCommitted: number;
    bytesResident: number;
  };
}

export interface SessionOptions {
  /** 0 = the model's context. */
  maxTokens?: number;
  /** Rows that logits() can give; 0 = 1. */
  maxLogits?: number;
  /** Tokens that are guessed ahead, at most 16: text that repeats earlier text is faster, and the same; 0 = none. */
  maxDraft?: number;
  embeddings?: boolean;
}

/** All zero or missing: greedy. */
export interface SamplerOptions {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repeatPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  penaltyTokens?: number;
  seed?: number | bigint;
  // qinfer.h defines these, and what 0 stands for.
  typicalP?: number;
  topNSigma?: number;
  dynatempRange?: number;
  dynatempExponent?: number;
  xtcProbability?: number;
  xtcThreshold?: number;
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  dryPenaltyTokens?: number;
  mirostat?: number;
  mirostatTau?: number;
  mirostatEta?: number;
  /** Letters of the steps in their order; "" is "edtskypmx". */
  steps?: string;
}

export interface EvaluateOptions extends Cancellable {
  /** At most this many tokens in this call; 0 = all that are pending. */
  maxTokens?: number;
  /** Rows of logits to keep for each session; 0 = 1. */
  keepLogits?: number;
  /** False: compute none. */
  logits?: boolean;
}
/** Evaluates the pending tokens of sessions of one cache as one batch. */
export function evaluate(sessions: Iterable<Session>, options?: EvaluateOptions): Promise<void>;
export function evaluateSync(sessions: Iterable<Session>, options?: EvaluateOptions): void;

export interface TokenLogprob {
  token: number;
  logprob: number;
}

/** What comes of a token. */
export interface Piece {
  /** -1: none; text that was held back until the end. */
  token: number;
  /** New whole characters, perhaps none. */
  text: string;
  /** With topLogprobs: the natural logarithm of its probability under the model; 0 without a token. */
  logprob?: number;
  /** With topLogprobs: as many of the most likely tokens, in descending order; none without a token. */
  top?: TokenLogprob[];
  /** With reply: its parts that are certain now. */
  parts?: Part[];
}

export interface StreamOptions extends Cancellable {
  /** New tokens; 0 = until an end token or the end of the context. */
  maxTokens?: number;
  /** The output ends before the first of these that appears. */
  stop?: string | readonly string[];
  /** How many tokens may be drawn and not yet taken by the reader; default 64, at least 1. */
  ahead?: number;
  /**
   * The reply that these tokens are. It gets each of them just before the program does (do not push them). Until its
   * reasoning ends the session's logits hook rests: what the hook asks for begins where the content begins.
   */
  reply?: Reply;
  /** With reply: after so many tokens of reasoning its end marker follows; 0 = no bound. */
  maxReasoningTokens?: number;
}

export interface PieceOptions extends StreamOptions {
  /**
   * Each piece has its log probability and this many of the most likely tokens, 0 to 64 and at most nVocab; end tokens
   * are pieces then, too. generate() needs onToken for it.
   */
  topLogprobs?: number;
}

export interface GenerateOptions extends PieceOptions {
  /** New text. False ends the generation, and so does what it throws, which the call then throws. */
  onText?: (text: string) => unknown;
  /** Each piece, before onText has its text; with the same rules. */
  onToken?: (piece: Piece) => unknown;
}

export interface Generated {
  text: string;
  /** An end token, a stop text, maxTokens or the context, a callback or a loop that was left. */
  finish: 'end' | 'stop' | 'length' | 'callback';
  promptTokens: number;
  /** Of the prompt, found in the cache instead of evaluated. */
  cachedTokens: number;
  newTokens: number;
  /** Of the new ones, with reply; the end marker is one of them. */
  reasoningTokens: number;
  /** With reply: it ended inside of the reasoning, and there is no content. */
  inReasoning: boolean;
  prefillNs: number;
  decodeNs: number;
}

/** The items of a generation, which begins when the first one is asked for. One loop can read it. */
export interface Stream<T> extends AsyncIterableIterator<T> {
  next(): Promise<IteratorResult<T, undefined>>;
  /** Ends the generation as of the last item: the session has no tokens beyond it. */
  return(): Promise<IteratorResult<T, undefined>>;
  [Symbol.asyncIterator](): this;
  /** How the generation ended, once it has. */
  readonly result: Generated | undefined;
}

/**
 * Code between the logits and the sampler. False from any of them, or what they throw, ends the call. They run on the
 * JavaScript thread; a call on another thread waits for them.
 */
export interface LogitsHook {
  /** Changes the logits in place; the array is for this call alone. -Infinity bans a token. */
  apply(logits: Float32Array): unknown;
  /** Each token that sampling appends. */
  accept?(token: number): unknown;
  /** How many accepted tokens are about to be taken back. */
  rewind?(nTokens: number): unknown;
}

export interface Metrics {
  prefillTokens: number;
  decodeTokens: number;
  evals: number;
  cachedTokens: number;
  prefillNs: number;
  decodeNs: number;
  sampleNs: number;
  waitNs: number;
  /** Guessed tokens that were evaluated, and those that were right, by their place in the guess. */
  drafted: number[];
  accepted: number[];
}

export interface SnapshotOptions {
  /** Go on from keys and values that other options computed, too. */
  anyBits?: boolean;
  /** QINFER_E_FORMAT instead of a state that may not be the last one. */
  noRecovery?: boolean;
}

export interface Session extends Handle {}
/**
 * A list of tokens, a prefix of which is evaluated while the rest is pending, and its sampler. One call at a time uses a
 * session: while one runs, all else but close() is QINFER_E_STATE. Its logits hook may read it.
 */
export class Session {
  /** source: a cache, or a model, for which a cache is made that close() frees. */
  constructor(source: KvCache | Model, options?: SessionOptions);
  static load(cache: KvCache, path: string | URL, options?: SnapshotOptions): Promise<Session>;
  static loadSync(cache: KvCache, path: string | URL, options?: SnapshotOptions & WithFiles): Session;
  readonly cache: KvCache;
  readonly model: Model;
  /** Of a session that was loaded, what was found. */
  readonly loaded?: { recovered: boolean; otherBits: boolean; tokens: number; evaluatedTokens: number };
  save(path: string | URL): Promise<void>;
  saveSync(path: string | URL, options?: WithFiles): void;
  /** A copy that shares memory until one side writes. It has no logits hook; a grammar it has, at the same place. */
  fork(): Session;

  /** Adds pending tokens, or those of a text. */
  append(tokens: Iterable<number> | string): void;
  /** Makes these the session's tokens, and keeps what they have in common with those there are; returns how many. */
  setTokens(tokens: Iterable<number>): number;
  truncate(nTokens: number): void;
  readonly tokens: number[];
  readonly length: number;
  /** Tokens that are not evaluated; 0: logits are there. */
  readonly pending: number;
  readonly info: {
    maxTokens: number;
    maxLogits: number;
    maxDraft: number;
    nTokens: number;
    nEvaluated: number;
    nLogits: number;
    nBias: number;
    embeddings: boolean;
    hasLogitsHook: boolean;
  };
  readonly memory: { kvPrivate: number; kvShared: number; kvReserved: number; other: number };
  readonly metrics: Metrics;

  setSampler(options?: SamplerOptions): void;
  /** The texts that no repetition of DRY reaches over, at most 16 of 1 to 40 bytes; none: no text. */
  setDryBreakers(texts: string | readonly string[]): void;
  /** Adds to the logits of tokens; -Infinity bans one. Replaces what was set. */
  setBias(bias: ReadonlyMap<number, number> | Readonly<Record<number, number>>): void;
  /** Takes the place of a grammar, if there is one. */
  setLogitsHook(hook: LogitsHook | LogitsHook['apply'] | null): void;
  readonly logitsHook: LogitsHook | null;
  /**
   * What is drawn from now on fulfils the grammar, from its beginning, or goes on where a matcher stands. Takes the place
   * of a logits hook; null: neither. QINFER_E_INVALID_ARGUMENT for a grammar of another model, QINFER_E_STATE for a
   * matcher that a session has. Where the grammar cannot go on, calls that draw are QINFER_E_CANCELLED, whose cause is a
   * QinferError with the reason.
   */
  setGrammar(grammar: Grammar | Matcher | null): void;
  readonly grammar: Grammar | Matcher | null;

  evaluate(options?: EvaluateOptions): Promise<void>;
  evaluateSync(options?: EvaluateOptions): void;
  /** Draws a token from the last logits and appends it. */
  sample(): Promise<number>;
  sampleSync(): number;
  /** A copy of the nVocab logits of the last evaluated token, or of one `back` earlier. */
  logits(back?: number): Float32Array;
  /** The same into an array of the caller; returns how many. */
  copyLogits(values: Float32Array, back?: number): number;
  logprobs(tokens: Iterable<number>, back?: number): number[];
  /** The n most likely tokens, in descending order. */
  topLogprobs(n: number, back?: number): TokenLogprob[];
  /** embeddingDims values, or the first dims, of length 1. Without scaled they are as pooling and layers give them. */
  embedding(
    pooling?: 'default' | 'last' | 'mean' | 'first',
    options?: { dims?: number; scaled?: boolean },
  ): Float32Array;
  /** Makes a query and a document the tokens, for score(); how many of the document's were cut off. */
  setPair(query: string, document: string, options?: ScoreOptions): number;
  /** How well the document answers the query, once both are evaluated. */
  score(options?: ScoreOptions): number;

  /** Evaluates what is pending, then draws tokens until done. */
  generate(options?: GenerateOptions): Promise<Generated>;
  generateSync(options?: GenerateOptions): Generated;
  /** The text of generate(), piece by piece. Leaving the loop ends the generation as of the last piece. */
  stream(options?: StreamOptions): Stream<string>;
  /** The same, each token a piece. */
  streamTokens(options?: PieceOptions): Stream<Piece>;
}

/** A JSON schema: an object, true or false, or JSON as a string. Properties are drawn in its order. */
export type JsonSchema = Readonly<Record<string, unknown>> | boolean | string;

/** Limits, against texts that come from strangers; 0 = the default, which qinfer_grammar.h says. */
export interface GrammarOptions {
  /** Of a JSON schema: white space as often as the model likes. */
  anySpace?: boolean;
  /** Of the text. */
  maxSourceBytes?: number | bigint;
  /** Of brackets in the text. */
  maxDepth?: number;
  /** Of the lexer. */
  maxStates?: number;
  /** Of the compiled grammar. */
  maxSymbols?: number;
  /** Of the parser, at one place of the text. */
  maxRowItems?: number;
  /** Steps of the compiler of regular expressions, and the same for one token. */
  compileWork?: number | bigint;
  maskWork?: number | bigint;
}

export interface Grammar extends Handle {}
/**
 * A compiled text that what a session draws fulfils, for any number of sessions of the model. It needs libqinfer_grammar:
 * QINFER_E_NOT_FOUND where that is not in the package, nor named by the environment variable QINFER_GRAMMAR_LIBRARY, nor
 * found by the system. QINFER_E_FORMAT has the byte offset of a mistake in detail, where it is known; QINFER_E_UNSUPPORTED
 * names a keyword that no grammar enforces, or a limit.
 */
export class Grammar {
  private constructor();
  /** The text is one document that fulfils the schema. */
  static jsonSchema(model: Model, schema: JsonSchema, options?: GrammarOptions): Promise<Grammar>;
  static jsonSchemaSync(model: Model, schema: JsonSchema, options?: GrammarOptions): Grammar;
  /** The whole text matches, in the syntax of Rust's regex crate. */
  static regex(model: Model, pattern: string, options?: GrammarOptions): Promise<Grammar>;
  static regexSync(model: Model, pattern: string, options?: GrammarOptions): Grammar;
  /** As llguidance reads Lark: with a rule "start". */
  static lark(model: Model, text: string, options?: GrammarOptions): Promise<Grammar>;
  static larkSync(model: Model, text: string, options?: GrammarOptions): Grammar;
  readonly model: Model;
  readonly info: {
    kind: 'jsonSchema' | 'regex' | 'lark';
    /** Of the vocabulary. */
    nTokens: number;
    /** Kinds of documents that fulfil a schema and are not drawn, and what the compiler says. */
    nWarnings: number;
  };
}

export interface Matcher extends Handle {}
/**
 * Where one text stands in a grammar: for programs that sample without a session, and to go on after a snapshot, by
 * accept() of the tokens that were drawn and Session.setGrammar(). It is for one session.
 */
export class Matcher {
  /** At the beginning. */
  constructor(grammar: Grammar);
  readonly model: Model;
  /** Another one at the same place. */
  clone(): Matcher;
  /** Bit t % 32 of word t >> 5 is 1 if token t may come next; end tokens may where the text is complete. */
  mask(): Uint32Array;
  /** All or none: QINFER_E_INVALID_ARGUMENT if one cannot come next, with its index in detail. */
  accept(tokens: Iterable<number>): void;
  /** Takes back the last tokens. */
  rewind(nTokens: number): void;
  readonly info: {
    /** The text is complete; it may go on all the same. */
    accepting: boolean;
    /** It cannot go on: only an end token may come. */
    ended: boolean;
    /** See error. */
    failed: boolean;
    /** Accepted. */
    nTokens: number;
  };
  /** What ended its work: QINFER_E_UNSUPPORTED where a limit was reached or no token goes on. */
  readonly error: QinferError | null;
}

/** Whose keys and values a call of a store is about, and what ends it. */
export interface KeptOptions extends Cancellable {
  /** Those of one name do not find what another has kept; the default is "". */
  tenant?: string;
}

export interface KvStore extends Handle {}
/**
 * A folder with blocks of keys and values, so that a conversation that goes on later, in another process too, is not
 * evaluated again. Blocks are found by their tokens and all tokens before them; conversations that begin alike share the
 * files of their beginning. Any number of calls use it at once; one that is closed during calls lets go of its folder
 * after them.
 */
export class KvStore {
  /**
   * cache: one with prefix. path: the folder, made for its owner alone where there is none; QINFER_E_STATE while another
   * store has it. maxBytes: of its files; those used longest ago are removed for others.
   */
  constructor(cache: KvCache, path: string | URL, maxBytes: number | bigint);
  readonly cache: KvCache;
  readonly model: Model;
  readonly stats: {
    /** There now, as their bytes are. */
    nFiles: number;
    bytes: number;
    /** Files, since it was opened. */
    written: number;
    read: number;
    /** Of those used longest ago, for others. */
    removed: number;
    damaged: number;
  };
  /**
   * Writes the full blocks of a session of the cache that are not in the folder, best when its conversation rests; gives
   * how many of its tokens are there now, from the first on. One that was loaded from a snapshot is QINFER_E_UNSUPPORTED.
   */
  keep(session: Session, options?: KeptOptions): Promise<number>;
  keepSync(session: Session, options?: KeptOptions): number;
  /**
   * Puts what is known of the tokens into the cache, where evaluations find it: before a session of them is evaluated.
   * Gives how many of the tokens the cache knows now, from the first on and never the last; fewer where it has no room
   * or a file is damaged.
   */
  fetch(tokens: Iterable<number>, options?: KeptOptions): Promise<number>;
  fetchSync(tokens: Iterable<number>, options?: KeptOptions): number;
}

export interface EngineOptions {
  /** Requests that are drawn together; 0 = 16. */
  maxRunning?: number;
  /** Requests that have not begun; 0 = 256. One more is QINFER_E_NO_MEMORY. */
  maxWaiting?: number;
  /** What an evaluation should take at most while tokens are drawn; 0 = 100. */
  stepMs?: number;
  /**
   * A directory. Requests then begin with blocks for their prompt; where blocks run out, one is written there, and goes
   * on when there is room.
   */
  park?: string;
  /** In these files at most; 0 = as many as needed. */
  parkBytes?: number | bigint;
}

/** How a request shares an engine with others. */
export interface RequestOptions {
  /** Higher ones begin first. */
  priority?: number;
  /** Whose it is, for example a user's number: keys share alike. */
  key?: number | bigint;
  /** After it the request ends with QINFER_E_CANCELLED, and the session keeps the tokens so far. */
  timeoutMs?: number;
}

export interface Engine extends Handle {}
/**
 * Draws the tokens of many requests together, on a thread of its own; each request's tokens are the same as alone. A
 * session is the engine's from the beginning of its request to its end, and all else with it is QINFER_E_STATE, but
 * close(), which ends the request. Blocks for a prompt and all tokens that may follow it are promised before a request
 * begins, so give maxTokens, or park. close() ends all requests with QINFER_E_STATE.
 */
export class Engine {
  /** The sessions must be of this cache. */
  constructor(cache: KvCache, options?: EngineOptions);
  readonly cache: KvCache;
  readonly model: Model;
  readonly stats: {
    /** Requests that have not begun. */
    waiting: number;
    /** Those that have, the parked ones too. */
    running: number;
    parked: number;
    /** Of the cache's blocks, to running requests. */
    promisedBytes: number;
    /** Since the engine was made, as the next four. */
    submitted: number;
    ended: number;
    steps: number;
    decodeRows: number;
    promptRows: number;
    lastStepNs: number;
    /** In files now, and how often a request has left for one. */
    parkedBytes: number;
    timesParked: number;
    /** What the engine itself takes. */
    memoryBytes: number;
  };
  /** Session.generate(), together with the other requests of the engine. */
  generate(session: Session, options?: Omit<GenerateOptions, 'ahead'> & RequestOptions): Promise<Generated>;
  /**
   * Session.stream(), likewise: the request begins when the first item is asked for, and ends when the loop is left. The
   * engine does not wait for its reader.
   */
  stream(session: Session, options?: Omit<StreamOptions, 'ahead'> & RequestOptions): Stream<string>;
  /** The same, each token a piece. */
  streamTokens(session: Session, options?: Omit<PieceOptions, 'ahead'> & RequestOptions): Stream<Piece>;
}

/** A part of a reply: a piece of content or reasoning, or a call of a tool with its arguments as text. */
export type Part =
  | { kind: 'content' | 'reasoning'; text: string }
  | { kind: 'call'; text: string; name: string; id: string; call: number };

export interface ReplyOptions extends PromptOptions {
  /** False: nothing is taken for reasoning, even where the prompt ends with its marker. */
  reasoning?: boolean;
}

export interface Reply extends Handle {}
/** Takes a reply to a conversation apart while it comes. */
export class Reply {
  /** messages and options: those that the prompt was made with. */
  constructor(model: Model, messages: readonly Message[], options?: ReplyOptions);
  /** The parts that are certain now. */
  push(token: number): Part[];
  finish(): Part[];
  /** Whether it is in its reasoning, whose end has not come. */
  readonly inReasoning: boolean;
  /** What was pushed, as a message to add to the conversation. */
  readonly message: Message;
}

export interface ChatOptions extends ReplyOptions {
  messages?: Message[];
  sampler?: SamplerOptions;
  maxTokens?: number;
  maxReasoningTokens?: number;
  /** That the content of every reply fulfils. */
  grammar?: Grammar;
}

/** Of one turn, instead of those of the chat. */
export interface TurnOptions extends Cancellable {
  maxTokens?: number;
  /** After so many tokens of reasoning its end marker follows; 0 = no bound. */
  maxReasoningTokens?: number;
  /** False: nothing is taken for reasoning, and a logits hook is asked from the first token on. */
  reasoning?: boolean;
  /** That the content of the reply fulfils: it begins after the reasoning. Takes the place of the session's hook. */
  grammar?: Grammar;
  ahead?: number;
}

/**
 * A conversation with a model. Each turn evaluates only what is new. A turn that fails takes its message back; of one that
 * is left, or ended by a signal, the reply so far stays, if there is any. A logits hook of the session rests until the
 * reasoning of a reply ends.
 */
export class Chat implements Disposable {
  constructor(model: Model, options?: ChatOptions);
  readonly model: Model;
  /** May be changed between turns. */
  messages: Message[];
  /** Made by the first turn. */
  session: Session | null;
  /** Of the last turn that was read to its end. */
  result: Generated | undefined;
  /**
   * A message of the user, or null for a reply to the messages as they are; gives what the model says. Calls of tools
   * are in the last message's tool_calls.
   */
  send(content: string | null, options?: TurnOptions): Promise<string>;
  /** The parts of the reply as they come. */
  stream(content: string | null, options?: TurnOptions): AsyncGenerator<Part, void, undefined>;
  close(): void;
  [Symbol.dispose](): void;
}
