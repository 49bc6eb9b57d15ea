// Engines: requests that are drawn together give what each gives alone, and end in every way that there is.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancel, Engine, KvCache, Reply, Session } from 'qinfer';
import { chatModel, failsWith, lasting, model, prompted, temporaryFolder } from './support.mjs';

const prompts = ['Once upon a time', 'Lily saw a dog. Lily saw a dog. Lily', 'The sun', 'Tom and Sue went to the park'];
const samplers = [{}, { temperature: 0.8, seed: 5 }, { temperature: 1.1, topK: 20, seed: 6 }];
const wanted = prompts.flatMap((prompt) => samplers.map((sampler) => ({ prompt, sampler })));

function sessionOf({ prompt, sampler }, source, options) {
  const session = prompted(prompt, options, source);
  session.setSampler(sampler);
  return session;
}

/** An engine with room for many requests, and what makes sessions of it. */
function engineOf(t, options, cacheOptions = { budgetBlocks: 100 }) {
  const cache = new KvCache(model, cacheOptions);
  const engine = new Engine(cache, options);
  t.after(() => engine.close());
  const session = (prompt = 'Once upon a time', sampler = {}, sessionOptions = undefined) =>
    sessionOf({ prompt, sampler }, cache, sessionOptions);
  return { cache, engine, session, lasting: () => lasting(cache) };
}

/** Waits until a condition is true. */
async function until(condition) {
  for (let round = 0; round < 500; round++) {
    if (condition()) return;
    await sleep(2);
  }
  assert.fail(`not true in time: ${condition}`);
}

async function read(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

test('requests that are drawn together give what each gives alone', async (t) => {
  const { cache, engine, session } = engineOf(t, { maxRunning: 8 });
  const alone = wanted.map((each) => {
    const own = sessionOf(each, model);
    return { result: own.generateSync({ maxTokens: 30 }), tokens: own.tokens };
  });
  for (const maxDraft of [0, 8]) {
    const sessions = wanted.map(({ prompt, sampler }) => session(prompt, sampler, { maxDraft }));
    const results = await Promise.all(sessions.map((each) => engine.generate(each, { maxTokens: 30 })));
    for (const [at, { result, tokens }] of alone.entries()) {
      const { text, finish, promptTokens, newTokens } = result;
      const got = results[at];
      assert.deepEqual(
        [got.text, got.finish, got.promptTokens, got.newTokens],
        [text, finish, promptTokens, newTokens],
      );
      assert.deepEqual(sessions[at].tokens, tokens);
      assert.ok(got.prefillNs > 0 && got.decodeNs > 0);
    }
    // The sessions are the program's again, and go on as alone.
    const more = await Promise.all(sessions.map((each) => engine.generate(each, { maxTokens: 5 })));
    for (const [at, each] of wanted.entries()) {
      const own = sessionOf(each, model);
      own.generateSync({ maxTokens: 30 });
      assert.equal(more[at].text, own.generateSync({ maxTokens: 5 }).text);
    }
    for (const each of sessions) each.close();
  }
  const { stats } = engine;
  assert.deepEqual([stats.submitted, stats.ended, stats.waiting, stats.running], [48, 48, 0, 0]);
  assert.ok(stats.steps > 0 && stats.decodeRows > stats.steps, 'several rows are evaluated in a step');
  assert.ok(stats.promptRows > 0 && stats.lastStepNs > 0);
  assert.deepEqual([stats.parked, stats.parkedBytes, stats.timesParked, stats.promisedBytes], [0, 0, 0, 0]);
  assert.ok(stats.memoryBytes > 1000 && stats.memoryBytes < 1_000_000, `${stats.memoryBytes}`);
  assert.equal(cache.stats.blocksUsed, 0);
  assert.deepEqual([engine.cache, engine.model], [cache, model]);
});

test('streams of an engine have the pieces that those of a session have', async (t) => {
  const { engine, session } = engineOf(t);
  const variants = [
    { maxTokens: 16 },
    { maxTokens: 16, topLogprobs: 3 },
    { maxTokens: 16, stop: ['girl.!'] },
    { maxTokens: 16, stop: [' little'] },
    { maxTokens: 16, stop: [' little'], topLogprobs: 1 },
    { maxTokens: 200 }, // until an end token
    { maxTokens: 200, topLogprobs: 0 },
    { maxTokens: 5, stop: ' very' },
  ];
  await Promise.all(
    variants.map(async (options) => {
      const own = prompted();
      const expected = own.streamTokens(options);
      const pieces = await read(expected);
      const stream = engine.streamTokens(session(), options);
      assert.deepEqual(await read(stream), pieces);
      const timeless = ({ prefillNs, decodeNs, cachedTokens, ...rest }) => rest;
      assert.deepEqual(timeless(stream.result), timeless(expected.result));
      const { topLogprobs, ...plain } = options;
      assert.deepEqual(await read(engine.stream(session(), plain)), await read(prompted().stream(plain)));
    }),
  );
});

test('a stop text that is a control token is no piece of its own', async (t) => {
  const cache = new KvCache(chatModel);
  const engine = new Engine(cache);
  t.after(() => engine.close());
  const messages = [{ role: 'user', content: 'Hello!' }];
  const plain = new Session(cache);
  plain.append(chatModel.tokenizeChat(messages));
  plain.generateSync();
  const last = chatModel.token(plain.tokens.at(-1));
  assert.ok(last.control && last.end);
  const stop = new TextDecoder().decode(last.bytes);
  for (const options of [{ stop }, { stop, topLogprobs: 1 }, {}]) {
    const streams = [(session) => session.streamTokens(options), (session) => engine.streamTokens(session, options)];
    const [alone, together] = await Promise.all(
      streams.map(async (begin) => {
        const session = new Session(cache);
        session.append(chatModel.tokenizeChat(messages));
        const reply = new Reply(chatModel, messages);
        const stream = begin(session);
        const pieces = await read(stream);
        session.close();
        reply.close();
        return [pieces, stream.result.finish, stream.result.newTokens];
      }),
    );
    assert.deepEqual(together, alone);
    assert.equal(together[1], options.stop ? 'stop' : 'end');
  }
});

test('callbacks and replies are told of a request as of a generation', async (t) => {
  const cache = new KvCache(chatModel);
  const engine = new Engine(cache);
  t.after(() => engine.close());
  const messages = [{ role: 'user', content: 'Hello!' }];
  const ask = async (generate) => {
    const session = new Session(cache);
    session.append(chatModel.tokenizeChat(messages));
    const reply = new Reply(chatModel, messages);
    const told = [];
    const onToken = ({ token }) => void told.push(token);
    const onText = async (text) => void told.push(text);
    const { text, finish } = await generate(session, { maxTokens: 20, reply, maxReasoningTokens: 4, onToken, onText });
    const { tokens } = session;
    session.close();
    return { text, finish, told, tokens, parts: reply.finish(), message: reply.message };
  };
  const [alone, together] = await Promise.all([
    ask((session, options) => session.generate(options)),
    ask((session, options) => engine.generate(session, options)),
  ]);
  assert.deepEqual(together, alone);
  const session = new Session(cache);
  session.append(chatModel.tokenizeChat(messages));
  const { finish, newTokens } = await engine.generate(session, { onToken: () => false });
  assert.deepEqual([finish, newTokens], ['callback', 1]);
});

test('requests are parked where blocks run out, and give the same', async (t) => {
  const park = temporaryFolder(t);
  const { engine, session } = engineOf(t, { park }, { budgetBlocks: 9 });
  const sampler = { temperature: 0.8, seed: 3 };
  const alone = sessionOf({ prompt: 'Once upon a time', sampler }, model).generateSync({ maxTokens: 150 });
  const sessions = Array.from({ length: 4 }, () => session('Once upon a time', sampler));
  const results = await Promise.all(
    sessions.map(async (each) => {
      const result = await engine.generate(each, { maxTokens: 150 });
      each.close();
      return result.text;
    }),
  );
  assert.deepEqual(results, Array(4).fill(alone.text));
  assert.ok(engine.stats.timesParked > 0);
  assert.deepEqual([engine.stats.parked, engine.stats.parkedBytes], [0, 0]);
  assert.deepEqual(readdirSync(park), []);
  await failsWith('QINFER_E_NOT_FOUND', () => new Engine(new KvCache(model), { park: `${park}/none` }));
});

test('a request that finds no room in the files for parked ones ends alone', async (t) => {
  const { engine, session } = engineOf(t, { park: temporaryFolder(t), parkBytes: 1 }, { budgetBlocks: 9 });
  const sampler = { temperature: 0.8, seed: 3 };
  const outcomes = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const own = session('Once upon a time', sampler);
      try {
        return (await engine.generate(own, { maxTokens: 150 })).finish;
      } catch (error) {
        return error.code;
      } finally {
        own.close();
      }
    }),
  );
  assert.ok(outcomes.includes('QINFER_E_NO_MEMORY'), `${outcomes}`);
  assert.ok(
    outcomes.some((each) => each === 'end' || each === 'length'),
    `${outcomes}`,
  );
});

test('a loop that is left takes back what was drawn beyond it', async (t) => {
  const { cache, engine, session } = engineOf(t);
  const sampler = { temperature: 1.2, seed: 7 };
  for (const leaveAt of [1, 3, 16]) {
    const [left, exact] = [session(undefined, sampler), session(undefined, sampler)];
    let n = 0;
    const stream = engine.streamTokens(left, { maxTokens: 16 });
    for await (const _ of stream) {
      await sleep(2);
      if (++n === leaveAt) break;
    }
    exact.generateSync({ maxTokens: leaveAt });
    assert.deepEqual(left.tokens, exact.tokens);
    assert.deepEqual([stream.result.finish, stream.result.newTokens], ['callback', leaveAt]);
    assert.equal((await engine.generate(left, { maxTokens: 8 })).text, exact.generateSync({ maxTokens: 8 }).text);
    left.close();
    exact.close();
  }
  assert.equal(cache.stats.blocksUsed, 0);
});

test('signals, cancels and timeouts end their request and no other', async (t) => {
  const { engine, session, lasting } = engineOf(t);
  const reason = new Error('enough');
  await assert.rejects(engine.generate(session(), { signal: AbortSignal.abort(reason) }), (error) => error === reason);
  const other = engine.generate(lasting(), { maxTokens: 120 });
  for (const options of [{}, { onText() {} }]) {
    const controller = new AbortController();
    const own = lasting();
    const running = engine.generate(own, { ...options, maxTokens: 250, signal: controller.signal });
    await sleep(3);
    controller.abort();
    await assert.rejects(running, { name: 'AbortError' });
    own.close();
  }
  const controller = new AbortController();
  const streamed = lasting();
  let n = 0;
  await assert.rejects(
    async () => {
      for await (const _ of engine.stream(streamed, { signal: controller.signal })) if (++n === 3) controller.abort();
    },
    { name: 'AbortError' },
  );
  assert.deepEqual([n, streamed.length], [3, 7]);
  streamed.close();

  const cancel = new Cancel();
  cancel.request();
  const error = await failsWith('QINFER_E_CANCELLED', () => engine.generate(session(), { cancel }));
  assert.doesNotMatch(error.message, /deadline/);
  for (const call of [
    (own, options) => engine.generate(own, options),
    (own, options) => read(engine.stream(own, options)),
  ]) {
    const late = await failsWith('QINFER_E_CANCELLED', () => call(session(), { timeoutMs: 0 }));
    assert.match(late.message, /deadline/);
  }
  const own = session();
  assert.equal((await engine.generate(own, { maxTokens: 5, timeoutMs: 60_000, key: 3n, priority: -1 })).newTokens, 5);
  own.close();
  assert.equal((await other).newTokens, 120);
  assert.equal(engine.stats.running, 0);
});

test('text that came before an error is told before it', async (t) => {
  const { engine, lasting } = engineOf(t);
  const own = lasting();
  let text = '';
  await failsWith('QINFER_E_CANCELLED', async () => {
    for await (const piece of engine.stream(own, { timeoutMs: 20, stop: ['never'] })) text += piece;
  });
  assert.equal(text, model.detokenize(own.tokens.slice(4)));
});

test('an error of one request leaves the others alone', async (t) => {
  const { engine, session } = engineOf(t, {}, { budgetBlocks: 8 });
  const alone = prompted().generateSync({ maxTokens: 30 }).text;
  const good = () => engine.generate(session(), { maxTokens: 30 });
  const thrown = new Error('a hook');
  const hooked = session();
  hooked.setLogitsHook({
    apply() {},
    accept: () => {
      if (hooked.length === 7) throw thrown;
    },
  });
  const refused = session();
  refused.setLogitsHook(() => false);
  const [first, second] = [good(), good()];
  await assert.rejects(engine.generate(hooked, { maxTokens: 30 }), (error) => error === thrown);
  assert.equal(hooked.length, 6);
  await failsWith('QINFER_E_CANCELLED', () => engine.generate(refused, { maxTokens: 30 }));
  await failsWith('QINFER_E_KV_FULL', () => engine.generate(session(), { maxTokens: 250 + 32 * 8 }));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => engine.generate(prompted(), { maxTokens: 1 }));
  await failsWith('QINFER_E_STATE', () => engine.generate(new Session(engine.cache), { maxTokens: 1 }));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => engine.generate(session(), { stop: '' }));
  await assert.rejects(engine.generate(session(), { ahead: 3 }), { name: 'TypeError', message: /no option ahead/ });
  assert.deepEqual([(await first).text, (await second).text], [alone, alone]);
});

test('hooks of several requests change what they draw, and see their session', async (t) => {
  const { engine, session } = engineOf(t);
  const hook = (own, seen) => (logits) => {
    seen.push(own.length);
    logits.fill(-Infinity, 0, 300);
  };
  const draw = async (begin) => {
    const own = session('Once upon a time', { temperature: 1, seed: 4 });
    const seen = [];
    own.setLogitsHook(hook(own, seen));
    const { text } = await begin(own);
    return { text, seen };
  };
  const alone = await draw((own) => own.generate({ maxTokens: 8 }));
  const together = await Promise.all(
    Array.from({ length: 5 }, () => draw((own) => engine.generate(own, { maxTokens: 8 }))),
  );
  for (const each of together) assert.deepEqual(each, alone);
});

test('a hook may use the engine that waits for it', async (t) => {
  const { engine, session } = engineOf(t);
  const own = session();
  const others = [];
  own.setLogitsHook(() => {
    assert.equal(engine.stats.running + engine.stats.waiting, 1 + others.length);
    assert.equal(session().generateSync({ maxTokens: 3 }).newTokens, 3);
    others.push(engine.generate(session(), { maxTokens: 20 }));
  });
  assert.equal((await engine.generate(own, { maxTokens: 3 })).newTokens, 3);
  for (const each of others) assert.equal((await each).newTokens, 20);
});

test("a session is the engine's until its request has ended", async (t) => {
  const { engine, session, lasting } = engineOf(t);
  const own = lasting();
  const running = engine.generate(own, { maxTokens: 200 });
  const uses = {
    generate: () => own.generate({ maxTokens: 1 }),
    twice: () => engine.generate(own, { maxTokens: 1 }),
    stream: () => engine.stream(own, { maxTokens: 1 }).next(),
    evaluate: () => own.evaluate(),
    append: () => own.append([1]),
    truncate: () => own.truncate(0),
    length: () => own.length,
    tokens: () => own.tokens,
    logits: () => own.logits(),
    fork: () => own.fork(),
    save: () => own.save('nowhere'),
    setSampler: () => own.setSampler({}),
    setLogitsHook: () => own.setLogitsHook(null),
  };
  for (const use of Object.values(uses))
    assert.match((await failsWith('QINFER_E_STATE', use)).message, /another call is using the session/);
  await running;
  assert.equal(own.length, 204);

  const busy = session();
  const generating = busy.generate({ maxTokens: 100 });
  await failsWith('QINFER_E_STATE', () => engine.generate(busy, { maxTokens: 1 }));
  await generating;

  // Closing it ends its request.
  for (const call of [(each) => engine.generate(each), (each) => read(engine.stream(each))]) {
    const closed = lasting();
    const ended = call(closed);
    await sleep(2);
    closed.close();
    await failsWith('QINFER_E_CANCELLED', () => ended);
  }
});

test("one more request than may wait is refused, and its session stays the program's", async (t) => {
  const { engine, session, lasting } = engineOf(t, { maxRunning: 1, maxWaiting: 1 });
  const first = engine.generate(lasting(), { maxTokens: 150 });
  await until(() => engine.stats.running === 1);
  const second = engine.generate(lasting(), { maxTokens: 10 });
  const third = session();
  assert.match((await failsWith('QINFER_E_NO_MEMORY', () => engine.generate(third))).message, /max_waiting/);
  assert.equal(third.length, 4);
  third.append([1]);
  assert.deepEqual([(await first).newTokens, (await second).newTokens], [150, 10]);
  assert.equal((await engine.generate(third, { maxTokens: 2 })).newTokens, 2);
});

test('higher priorities begin first', async (t) => {
  const { engine, lasting } = engineOf(t, { maxRunning: 1, stepMs: 0.5 });
  const order = [];
  const ask = async (priority) => {
    await engine.generate(lasting(), { maxTokens: 20, priority });
    order.push(priority);
  };
  const first = engine.generate(lasting(), { maxTokens: 50 });
  await Promise.all([first, ask(0), ask(-5), ask(7)]);
  assert.deepEqual(order, [7, 0, -5]);
});

test('many tasks submit at once', async (t) => {
  const { cache, engine, session } = engineOf(t, { maxRunning: 12 }, { budgetBlocks: 60 });
  const alone = new Map();
  const ask = async (at) => {
    const each = wanted[at % wanted.length];
    const own = session(each.prompt, each.sampler);
    await sleep(at % 7);
    const pieces = await read(engine.stream(own, { maxTokens: 12, key: at % 5 }));
    own.close();
    return pieces.join('');
  };
  for (const each of wanted) alone.set(each, sessionOf(each, model).generateSync({ maxTokens: 12 }).text);
  const texts = await Promise.all(Array.from({ length: 100 }, (_, at) => ask(at)));
  for (const [at, text] of texts.entries()) assert.equal(text, alone.get(wanted[at % wanted.length]));
  assert.equal(engine.stats.ended, 100);
  assert.equal(cache.stats.blocksUsed, 0);
});

test('options of an engine that are of no use are named', async () => {
  const cache = new KvCache(model);
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => new Engine(cache, { maxRunning: 2 ** 31 }));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => new Engine(cache, { parkBytes: 5 }));
  for (const stepMs of [-1, NaN, Infinity, '3'])
    assert.throws(() => new Engine(cache, { stepMs }), { name: 'TypeError', message: /^stepMs must be a number/ });
  cache.close();
  assert.match((await failsWith('QINFER_E_STATE', () => new Engine(cache))).message, /this KvCache is closed/);
});
