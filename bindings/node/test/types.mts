// Checked by `tsc --noEmit --strict` and never run: what programs write has types, and what is wrong has none.
import {
  Cancel,
  Chat,
  Engine,
  evaluate,
  Grammar,
  KvCache,
  KvStore,
  Matcher,
  Model,
  plan,
  QinferError,
  Reply,
  Runtime,
  Session,
  type Generated,
  type HostFile,
  type Memory,
  type Part,
  type Piece,
} from 'qinfer';

export async function text(path: string): Promise<string> {
  using runtime = new Runtime({ threads: 2, exact: true });
  const model: Model = await Model.load(path, { runtime, progress: (done, total) => done < total });
  using cache = new KvCache(model, { budgetBlocks: 4n, kvType: 'f16' });
  const session = new Session(cache, { maxLogits: 2 });
  session.append('Once');
  session.append([1, 2]);
  session.append(Int32Array.of(3));
  session.setSampler({ temperature: 1, seed: 7n });
  session.setBias(new Map([[1, -Infinity]]));
  session.setLogitsHook({ apply: (logits) => logits.fill(0), accept: (token) => token > 3 });
  session.setLogitsHook((logits: Float32Array) => void (logits[0] = 1));
  session.setLogitsHook(null);
  await evaluate([session], { signal: AbortSignal.timeout(1), cancel: new Cancel() });
  const token: number = await session.sample();
  const best: { token: number; logprob: number }[] = session.topLogprobs(3);
  let out = `${token} ${best.length} ${session.logits()[0]?.toFixed()}`;
  for await (const piece of session.stream({ stop: ['.'], ahead: 8 })) out += piece.toUpperCase();
  const pieces = session.streamTokens({ topLogprobs: 2 });
  for await (const piece of pieces) out += (piece satisfies Piece).top?.[0]?.logprob ?? '';
  const result: Generated | undefined = pieces.result;
  const finish: 'end' | 'stop' | 'length' | 'callback' | undefined = result?.finish;
  const memory: Memory = await plan(new URL(`file://${path}`), { session: { maxTokens: 10 } });
  return out + finish + memory.total;
}

export async function engines(cache: KvCache): Promise<number> {
  using engine = new Engine(cache, { maxRunning: 4, stepMs: 0.5, park: '/tmp', parkBytes: 1n });
  const session = new Session(cache, { maxDraft: 8 });
  const request = { maxTokens: 3, priority: -1, key: 2n, timeoutMs: 100, signal: AbortSignal.timeout(1) };
  for await (const text of engine.stream(session, request)) text.trim();
  for await (const piece of engine.streamTokens(session, { topLogprobs: 1 })) (piece satisfies Piece).top?.[0];
  // @ts-expect-error: an engine waits for no reader
  engine.stream(session, { ahead: 3 });
  // @ts-expect-error: a session comes first
  void engine.generate({ maxTokens: 3 });
  return (await engine.generate(session, request)).newTokens + engine.stats.memoryBytes;
}

export async function kept(cache: KvCache, session: Session): Promise<number> {
  using store = new KvStore(cache, new URL('file:///tmp/kept'), 1n << 40n);
  const options = { tenant: 'Zoe', signal: AbortSignal.timeout(1), cancel: new Cancel() };
  // @ts-expect-error: tokens, and not a text
  void store.fetch('text');
  // @ts-expect-error: of how many bytes is to be said
  new KvStore(cache, 'kept');
  return (await store.keep(session, options)) + store.fetchSync(Int32Array.of(1)) + store.stats.nFiles;
}

export async function grammars(model: Model, session: Session): Promise<string> {
  using grammar = await Grammar.jsonSchema(model, { type: 'object', properties: {} }, { anySpace: true, maskWork: 9n });
  const matcher = new Matcher(Grammar.larkSync(model, 'start: "a"', { maxStates: 1000 })).clone();
  matcher.accept(Int32Array.of(1));
  matcher.rewind(matcher.info.nTokens);
  session.setGrammar(matcher);
  session.setGrammar(grammar);
  session.setGrammar(null);
  // @ts-expect-error: a grammar is compiled
  new Grammar(model);
  // @ts-expect-error: a schema comes with its model
  void Grammar.jsonSchema({ type: 'object' });
  // @ts-expect-error: a text is no grammar
  session.setGrammar('[a-c]');
  const kind: 'jsonSchema' | 'regex' | 'lark' = grammar.info.kind;
  const reason: string | undefined = matcher.error?.code;
  return kind + reason + ((matcher.mask()[0] ?? 0) & 1) + (await new Chat(model, { grammar }).send('Hi', { grammar }));
}

export async function calls(model: Model): Promise<string[]> {
  const names: string[] = [];
  const chat = new Chat(model, { tools: [], sampler: { topK: 4 }, variables: { enable_thinking: false } });
  for await (const part of chat.stream('Hello!', { maxReasoningTokens: 9, reasoning: true })) {
    if (part.kind === 'call') names.push(part.name);
    // @ts-expect-error: content has no name
    if (part.kind === 'content') names.push(part.name);
    (part satisfies Part).text.trim();
  }
  using reply = new Reply(model, chat.messages, { reasoning: !chat.result?.inReasoning });
  for await (const { parts } of chat.session!.streamTokens({ reply, maxReasoningTokens: 9 }))
    names.push(...(parts ?? []).map(({ kind }) => kind));
  const spent: number | false | undefined = !reply.inReasoning && chat.result?.reasoningTokens;
  return spent ? names : [];
}

export function snapshot(session: Session, file: HostFile): Session {
  session.saveSync('name', { files: (name, writing) => (writing && name !== '' ? file : null) });
  return Session.loadSync(session.cache, 'name', { files: () => -6 });
}

export function wrong(session: Session, model: Model): void {
  // @ts-expect-error: files only in synchronous calls
  void session.save('name', { files: () => null });
  // @ts-expect-error: no such option
  void session.generate({ max_tokens: 3 });
  // @ts-expect-error: the reply of a chat's turn is the chat's
  void new Chat(model).send('Hello!', { reply: new Reply(model, []) });
  // @ts-expect-error: a text has no log probabilities
  session.stream({ topLogprobs: 3 });
  // @ts-expect-error: a model is loaded
  new Model('path');
  // @ts-expect-error: not a text
  model.tokenize(7);
  // @ts-expect-error: an error is for reading
  new QinferError(-1, 'what').status = 3;
}

export function handled(error: unknown): number {
  return error instanceof QinferError && error.code === 'QINFER_E_KV_FULL' ? error.detail : 0;
}
