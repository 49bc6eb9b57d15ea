// Options are read once, when a call begins: what happens to the object afterwards changes nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cancel, Chat, Engine, evaluate, KvCache, KvStore, Model, plan, Reply, Session } from 'qinfer';
import { cases, chatModel, failsWith, model, modelPath, prompted, temporaryFolder } from './support.mjs';

const [greedy] = cases.greedy;

/** Options whose members may be read once each, until close(). */
function readOnce(values) {
  const reads = [];
  let isOpen = true;
  const options = {};
  for (const [name, value] of Object.entries(values))
    Object.defineProperty(options, name, {
      enumerable: true,
      get() {
        assert.ok(isOpen, `${name} is read after the call began`);
        assert.ok(!reads.includes(name), `${name} is read again`);
        reads.push(name);
        return value;
      },
    });
  return { options, reads, close: () => void (isOpen = false) };
}

test('every option is read once, before the call returns', async (t) => {
  const signal = AbortSignal.timeout(60_000);
  const cancel = new Cancel();
  const piecewise = { maxTokens: 4, stop: ['nowhere'], ahead: 3, signal, cancel };
  const turn = { maxTokens: 3, maxReasoningTokens: 2, reasoning: false, ahead: 2, signal, cancel };
  const callbacks = { onToken() {}, onText() {}, topLogprobs: 2 };
  const greeting = [{ role: 'user', content: 'Hello!' }];
  const replyOf = (options) => new Reply(chatModel, greeting, options);
  const greeted = () => {
    const session = new Session(chatModel);
    session.append(chatModel.tokenizeChat(greeting));
    return session;
  };
  const reading = async (stream) => {
    for await (const _ of stream);
  };
  const engine = new Engine(new KvCache(model));
  const { ahead, ...request } = { ...piecewise, priority: 2, key: 3n, timeoutMs: 60_000 };
  const asked = () => prompted(undefined, undefined, engine.cache);
  const store = new KvStore(new KvCache(model, { prefix: true }), temporaryFolder(t), 2 ** 20);
  const kept = { tenant: 'Zoe', signal, cancel };
  const calls = [
    [{ ...kept }, (options) => store.keep(new Session(store.cache), options)],
    [{ ...kept }, (options) => store.fetch([1], options)],
    [{ maxRunning: 2, maxWaiting: 3, stepMs: 0.5 }, (options) => new Engine(engine.cache, options)],
    [{ ...request }, (options) => engine.generate(asked(), options)],
    [{ ...request, ...callbacks }, (options) => engine.generate(asked(), options)],
    [{ ...request }, (options) => reading(engine.stream(asked(), options))],
    [{ ...request, topLogprobs: 2 }, (options) => reading(engine.streamTokens(asked(), options))],
    [{ ...piecewise }, (options) => prompted().generate(options)],
    [{ ...piecewise, ...callbacks }, (options) => prompted().generate(options)],
    [{ ...piecewise, ...callbacks }, (options) => prompted().generateSync(options)],
    [{ ...piecewise }, (options) => reading(prompted().stream(options))],
    [{ ...piecewise, topLogprobs: 2 }, (options) => reading(prompted().streamTokens(options))],
    [{ keepLogits: 1, logits: true, signal, cancel }, (options) => prompted().evaluate(options)],
    [{ maxTokens: 2, signal, cancel }, (options) => evaluate([prompted()], options)],
    [{ maxBatchTokens: 64, progress() {}, signal, cancel }, (options) => Model.load(modelPath, options)],
    [{ load: { weights: true }, session: { maxTokens: 8 }, signal }, (options) => plan(modelPath, options)],
    [{ kvType: 'f32', budgetBlocks: 2 }, (options) => new KvCache(model, options)],
    [{ maxTokens: 8, maxLogits: 2 }, (options) => new Session(model, options)],
    [{ temperature: 1, seed: 3n }, (options) => prompted().setSampler(options)],
    [{ tools: [], generationPrompt: true }, (options) => chatModel.renderChat([], options)],
    [
      { messages: [], maxTokens: 3, maxReasoningTokens: 2, reasoning: true, sampler: {} },
      (options) => new Chat(chatModel, options).send('Hello!'),
    ],
    [{ reasoning: false, now: '2026-11-22' }, (options) => replyOf(options)],
    [{ maxTokens: 2, reply: replyOf(), maxReasoningTokens: 3 }, (options) => greeted().generate(options)],
    [{ ...turn }, (options) => new Chat(chatModel).send('Hello!', options)],
    [{ ...turn }, (options) => reading(new Chat(chatModel).stream('Hello!', options))],
  ];
  for (const [values, call] of calls) {
    const { options, reads, close } = readOnce(values);
    const result = call(options);
    close();
    await result;
    assert.deepEqual(reads.sort(), Object.keys(values).sort(), String(call));
  }
});

test('what is changed after a call began has no effect', async () => {
  const reason = new Error('the first signal');
  const controller = new AbortController();
  const told = [];
  const options = { maxTokens: 16, stop: ['nowhere'], signal: controller.signal };
  const change = () => {
    options.maxTokens = 1;
    options.stop[0] = ' little';
    options.stop.push(' girl');
    options.signal = AbortSignal.abort();
    options.onText = options.onToken = () => assert.fail('a callback that came later is called');
  };
  const running = prompted().generate(options);
  change();
  assert.equal((await running).text, greedy.text);

  Object.assign(options, { maxTokens: 16, stop: ['nowhere'], signal: controller.signal, onText: undefined });
  options.onToken = ({ token }) => {
    told.push(token);
    change();
  };
  for (const generate of ['generate', 'generateSync']) {
    const before = { ...options, stop: ['nowhere'] };
    assert.equal((await prompted()[generate](options)).text, greedy.text);
    Object.assign(options, before);
  }
  assert.deepEqual(told, [...greedy.ids, ...greedy.ids]);

  Object.assign(options, { maxTokens: 16, stop: ['nowhere'], signal: controller.signal });
  delete options.onToken;
  delete options.onText;
  const stream = prompted().stream(options);
  change();
  let text = '';
  for await (const piece of stream) text += piece;
  assert.equal(text, greedy.text);

  options.signal = controller.signal;
  delete options.onToken;
  delete options.onText;
  const aborted = prompted().stream(options);
  change();
  controller.abort(reason);
  await assert.rejects(aborted.next(), (error) => error === reason);
});

test('lists are taken as they are when a call begins', async () => {
  const sessions = [prompted(), new Session(model)];
  const cache = new KvCache(model, { budgetBlocks: 8 });
  const [first, second] = [new Session(cache), new Session(cache)];
  for (const session of [first, second]) session.append([1, 2, 3]);
  const list = [first, second];
  const evaluating = evaluate(list);
  list.length = 0;
  await evaluating;
  assert.deepEqual([first.pending, second.pending], [0, 0]);
  const tokens = Int32Array.of(1, 2, 3);
  sessions[1].append(tokens);
  tokens.fill(7);
  assert.deepEqual(sessions[1].tokens, [1, 2, 3]);
  const planned = { session: { maxTokens: 100 } };
  const planning = plan(modelPath, planned);
  planned.session.maxTokens = 1;
  assert.equal((await planning).perSession, (await plan(modelPath, { session: { maxTokens: 100 } })).perSession);
});

test('a chat keeps its options, and not those that an object has later', async () => {
  const greeting = { role: 'user', content: 'Hello!' };
  const template = `{{ start }}${chatModel.chatTemplate()}`;
  const options = { messages: [], variables: { start: 'one' }, tools: [], template, maxTokens: 2, sampler: {} };
  const chat = new Chat(chatModel, options);
  options.variables.start = { toString: 7 };
  options.tools.push('no tool');
  options.messages.push(greeting);
  options.sampler.temperature = 'hot';
  Object.assign(options, { template: '{% if', maxTokens: 1 });
  await chat.send('Hello!');
  assert.equal(chat.result.newTokens, 2);
  const prompt = chatModel.tokenizeChat([greeting], { template, variables: { start: 'one' } });
  assert.deepEqual(chat.session.tokens.slice(0, -2), prompt);
  const turn = { maxTokens: 3 };
  const stream = chat.stream('Hello!', turn);
  turn.maxTokens = 1;
  for await (const _ of stream);
  assert.equal(chat.result.newTokens, 3);
});

test('a sampler that is refused leaves the chat without a session', async () => {
  const chat = new Chat(chatModel, { sampler: { temperature: -1 } });
  for (let round = 0; round < 2; round++) {
    await failsWith('QINFER_E_INVALID_ARGUMENT', () => chat.send('Hello!'));
    assert.deepEqual([chat.session, chat.messages], [null, []]);
  }
});

test('values of options that are of the right type and of no use are named', async () => {
  const error = await failsWith('QINFER_E_INVALID_ARGUMENT', () => new KvCache(model, { kvType: 'f8' }));
  assert.match(error.message, /kvType is "f8", which is none of default, f32, f16, bf16/);
  assert.throws(() => prompted().generateSync({ stop: ['a', 7] }), {
    name: 'TypeError',
    message: /^stop\[1\] must be/,
  });
  const options = { load: { mmap: 'no' } };
  await assert.rejects(plan(modelPath, options), { name: 'TypeError', message: /^load\.mmap must be true or false/ });
  for (const wrong of [new Map([['maxTokens', 1]]), AbortSignal.timeout(60_000), prompted(), [], 'fast'])
    assert.throws(() => prompted().stream(wrong), { name: 'TypeError', message: /^options must be an object/ });
  class Settings {
    get maxTokens() {
      return 3;
    }
  }
  assert.equal(prompted().generateSync(new Settings()).newTokens, 3);
  assert.equal(prompted().generateSync(Object.create({ maxTokens: 3 })).newTokens, 3);
});

test('a bias of what is none is a TypeError, and clears nothing', () => {
  const session = prompted();
  session.setBias({ [greedy.ids[0]]: -Infinity });
  for (const wrong of [undefined, 5, 'ab', new Set([1]), model, { '': 1 }, { a: 1 }, { 1: '2' }, new Map([[null, 1]])])
    assert.throws(() => session.setBias(wrong), { name: 'TypeError', message: /bias/ });
  assert.equal(session.info.nBias, 1);
  session.setBias(new Map([[1, 2]]));
  session.setBias([0, 0.5]);
  assert.equal(session.info.nBias, 2);
});

test('a hook of a class is called with its object', () => {
  class Counter {
    accepted = [];
    apply() {
      this.applied = true;
    }
    accept(token) {
      this.accepted.push(token);
    }
  }
  const hook = new Counter();
  const session = prompted();
  session.setLogitsHook(hook);
  session.generateSync({ maxTokens: 3 });
  assert.deepEqual([hook.applied, hook.accepted], [true, greedy.ids.slice(0, 3)]);
  assert.throws(() => session.setLogitsHook({ accept() {} }), { name: 'TypeError', message: /^apply of hook/ });
  assert.throws(() => session.setLogitsHook({ apply() {}, accept: 7 }), { message: /^accept of hook/ });
  assert.equal(session.info.hasLogitsHook, true);
});

test('topLogprobs is from 0 to 64, and needs what is told of pieces', async () => {
  const pieces = [];
  const onToken = (piece) => void pieces.push(piece);
  for (const generate of ['generate', 'generateSync']) {
    for (const topLogprobs of [0, 64]) {
      pieces.length = 0;
      const done = await prompted()[generate]({ maxTokens: 2, onToken, topLogprobs, stop: ['girl.!'] });
      assert.equal(pieces.length, done.newTokens);
      for (const { top, logprob } of pieces) assert.ok(top.length === topLogprobs && logprob < 0);
    }
    for (const topLogprobs of [65, -1, 1.5, '3', NaN])
      await assert.rejects(async () => prompted()[generate]({ maxTokens: 2, onToken, topLogprobs }), {
        name: 'TypeError',
        message: /^topLogprobs must be an integer from 0 to 64/,
      });
    await assert.rejects(async () => prompted()[generate]({ maxTokens: 2, topLogprobs: 3 }), {
      name: 'TypeError',
      message: /topLogprobs of generate(Sync)?\(\) needs onToken/,
    });
  }
  assert.throws(() => prompted().stream({ topLogprobs: 3 }), { name: 'TypeError', message: /topLogprobs/ });
  assert.throws(() => prompted().streamTokens({ topLogprobs: 65 }), { name: 'TypeError', message: /topLogprobs/ });
  // Text that comes without a token has no log probability.
  const held = [];
  for await (const piece of prompted().streamTokens({ maxTokens: 16, stop: 'girl.!', topLogprobs: 2 }))
    held.push(piece);
  assert.deepEqual(held.at(-1), { token: -1, text: 'girl.', logprob: 0, top: [] });
});
