// Streams and the signals that end calls.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancel, evaluate, KvCache, Model, plan, Session } from 'qinfer';
import { cases, failsWith, model, modelPath, prompted } from './support.mjs';

const [greedy] = cases.greedy;

test('a loop that is left takes back what was drawn beyond it, whatever the sampler', async () => {
  for (const leaveAt of [1, 3, 16]) {
    const [left, exact] = [prompted(), prompted()];
    for (const session of [left, exact]) session.setSampler({ temperature: 1.2, seed: 7 });
    let n = 0;
    const stream = left.streamTokens({ maxTokens: 16 });
    for await (const _ of stream) {
      // So that the generation is over long before the loop is left.
      await sleep(2);
      if (++n === leaveAt) break;
    }
    exact.generateSync({ maxTokens: leaveAt });
    assert.deepEqual(left.tokens, exact.tokens);
    assert.deepEqual([left.pending, left.length], [exact.pending, exact.length]);
    assert.deepEqual([stream.result.finish, stream.result.newTokens], ['callback', leaveAt]);
    assert.equal((await left.generate({ maxTokens: 8 })).text, exact.generateSync({ maxTokens: 8 }).text);
  }
});

test('a generation is only so far ahead of its reader', async () => {
  for (const ahead of [0, 1, 5]) {
    const session = prompted();
    const before = session.metrics;
    const stream = session.stream({ maxTokens: 100, ahead });
    await stream.next();
    await sleep(60);
    await stream.return();
    const after = session.metrics;
    const evaluated = after.decodeTokens + after.prefillTokens - before.decodeTokens - before.prefillTokens;
    // The prompt's 4, up to `ahead` that were taken with the first piece, and as many that wait.
    assert.ok(evaluated >= 4 && evaluated <= 4 + 2 * Math.max(ahead, 1) + 1, `${evaluated} with ${ahead}`);
    assert.equal(session.length, 5);
  }
});

test('every token is one piece, with its log probabilities where they are asked for', async () => {
  const pieces = [];
  for await (const piece of prompted().streamTokens({ maxTokens: 16, topLogprobs: 3 })) pieces.push(piece);
  assert.deepEqual(
    pieces.map(({ token }) => token),
    greedy.ids,
  );
  for (const { token, logprob, top } of pieces) {
    assert.deepEqual([top.length, top[0]], [3, { token, logprob }]);
    assert.ok(logprob <= 0 && top[1].logprob <= logprob && top[2].logprob <= top[1].logprob);
  }
  for await (const piece of prompted().streamTokens({ maxTokens: 2 }))
    assert.deepEqual(Object.keys(piece), ['token', 'text']);
});

test('text that was held back for a stop text comes at the end, without a token of its own', async () => {
  const pieces = [];
  for await (const piece of prompted().streamTokens({ maxTokens: 16, stop: ['girl.!'] })) pieces.push(piece);
  assert.equal(pieces.map(({ text }) => text).join(''), greedy.text);
  assert.deepEqual(
    pieces.map(({ token }) => token),
    [...greedy.ids, -1],
  );
});

test('items that are asked for at once come in order', async () => {
  const stream = prompted().stream({ maxTokens: 16 });
  const items = await Promise.all(Array.from({ length: 30 }, () => stream.next()));
  assert.equal(items.map(({ value }) => value ?? '').join(''), greedy.text);
  assert.deepEqual(items.at(-1), { value: undefined, done: true });
  assert.equal(stream.result.finish, 'length');
});

test('a stream that was returned while an item is asked for ends', async () => {
  const session = prompted();
  const stream = session.stream({ maxTokens: 200 });
  const [first, end] = await Promise.all([stream.next(), stream.next(), stream.return()].slice(0, 2));
  assert.ok(first.done || typeof first.value === 'string');
  assert.ok(end.done || typeof end.value === 'string');
  await stream.return();
  assert.deepEqual(await stream.next(), { value: undefined, done: true });
  assert.ok(session.length < 200);
});

test('a stream that was never read leaves its session alone', async () => {
  const session = prompted();
  const stream = session.stream({ maxTokens: 5 });
  session.append([1]);
  await stream.return();
  assert.deepEqual(await stream.next(), { value: undefined, done: true });
  assert.equal(session.length, 5);
});

test('errors come out of a stream after the text before them', async () => {
  const session = prompted();
  const cancel = new Cancel();
  let text = '';
  await failsWith('QINFER_E_CANCELLED', async () => {
    for await (const piece of session.stream({ maxTokens: 100, ahead: 1, cancel })) {
      text += piece;
      cancel.request();
    }
  });
  assert.equal(text, model.detokenize(session.tokens.slice(4)));
  await failsWith('QINFER_E_STATE', () => new Session(model).stream({ maxTokens: 1 }).next());
});

test('two streams of two sessions take turns', async () => {
  const read = async () => {
    let text = '';
    for await (const piece of prompted().stream({ maxTokens: 16 })) text += piece;
    return text;
  };
  assert.deepEqual(await Promise.all([read(), read(), read()]), Array(3).fill(greedy.text));
});

test('a forgotten stream does not keep its session in use', async () => {
  const session = prompted();
  await (async () => {
    await session.stream({ maxTokens: 200, ahead: 2 }).next();
  })();
  for (let round = 0; round < 100; round++) {
    globalThis.gc();
    await sleep(10);
    try {
      assert.equal(session.length, 5);
      return;
    } catch (error) {
      assert.equal(error.code, 'QINFER_E_STATE');
    }
  }
  assert.fail('the session is still in use');
});

test('a hook and a stream work together', async () => {
  const session = prompted(cases.hook.prompt);
  session.setLogitsHook((logits) => void (logits[cases.hook.ban] = -Infinity));
  let text = '';
  for await (const piece of session.stream({ maxTokens: cases.hook.new_tokens })) text += piece;
  assert.equal(text, cases.hook.text);
});

test('a hook is told of what is taken back after a loop was left', async () => {
  const session = prompted();
  const accepted = [];
  session.setLogitsHook({
    apply() {},
    accept: (token) => void accepted.push(token),
    rewind: (n) => void accepted.splice(-n),
  });
  let n = 0;
  for await (const _ of session.stream({ maxTokens: 16 })) if (++n === 3) break;
  assert.deepEqual(accepted, greedy.ids.slice(0, 3));
});

test('a signal that was aborted before is the reason of every call', async () => {
  const reason = new Error('enough');
  const signal = AbortSignal.abort(reason);
  const session = prompted();
  const calls = [
    () => session.generate({ signal }),
    () => session.generate({ signal, onText() {} }),
    () => session.generateSync({ signal }),
    () => session.evaluate({ signal }),
    () => session.evaluateSync({ signal }),
    () => evaluate([session], { signal }),
    () => session.stream({ signal }).next(),
    () => Model.load(modelPath, { signal }),
    () => Model.loadSync(modelPath, { signal }),
    () => plan(modelPath, { signal }),
  ];
  for (const call of calls)
    await assert.rejects(
      async () => call(),
      (error) => error === reason,
      String(call),
    );
  assert.equal((await session.generate({ maxTokens: 16 })).text, greedy.text);
});

test('a signal ends a generation with its reason, an AbortError', async () => {
  for (const options of [{}, { onText() {} }]) {
    const controller = new AbortController();
    const session = prompted();
    session.setBias(new Map(model.endTokens.map((token) => [token, -Infinity])));
    setTimeout(() => controller.abort(), 5);
    await assert.rejects(
      async () => {
        for (;;) {
          await session.generate({ maxTokens: 200, signal: controller.signal, ...options });
          session.truncate(4);
        }
      },
      { name: 'AbortError' },
    );
    session.truncate(Math.min(4, session.length));
    assert.equal((await session.generate({ maxTokens: 16 })).text, greedy.text);
  }
});

test('a signal that is aborted in the loop ends a stream as of the last item', async () => {
  const controller = new AbortController();
  const session = prompted();
  let n = 0;
  await assert.rejects(
    async () => {
      for await (const _ of session.stream({ maxTokens: 200, signal: controller.signal })) {
        if (++n === 3) controller.abort();
      }
    },
    { name: 'AbortError' },
  );
  assert.deepEqual([n, session.tokens.slice(4)], [3, greedy.ids.slice(0, 3)]);
});

test('a signal that a callback of a synchronous call aborts ends it', () => {
  const controller = new AbortController();
  const onText = () => controller.abort();
  assert.throws(() => prompted().generateSync({ maxTokens: 50, onText, signal: controller.signal }), {
    name: 'AbortError',
  });
});

test('a signal that is aborted after a call is over changes nothing', async () => {
  const controller = new AbortController();
  const session = prompted();
  const done = await session.generate({ maxTokens: 16, signal: controller.signal });
  controller.abort();
  assert.equal(done.text, greedy.text);
  assert.equal((await session.generate({ maxTokens: 2 })).newTokens, 2);
});

test('no item comes after the session was closed, however many were drawn', async () => {
  const cache = new KvCache(model, { budgetBlocks: 8 });
  for (const stream of ['stream', 'streamTokens']) {
    for (const maxTokens of [16, 100]) {
      const session = new Session(cache);
      session.append(greedy.prompt);
      const items = [];
      await failsWith('QINFER_E_CANCELLED', async () => {
        for await (const item of session[stream]({ maxTokens })) {
          items.push(item);
          // So that others are drawn, and wait to be taken.
          await sleep(20);
          session.close();
        }
      });
      assert.equal(items.length, 1);
      assert.equal(cache.stats.blocksUsed, 0);
    }
  }
});

/** Ways for a callback to end the generation that it is called by, with what comes out of the call. */
const endings = {
  abort: (session, controller) => [() => controller.abort(), { name: 'AbortError' }],
  close: (session) => [() => session.close(), { code: 'QINFER_E_CANCELLED' }],
};

for (const generate of ['generate', 'generateSync']) {
  test(`no callback of ${generate}() is called after one has ended it`, async () => {
    for (const [name, ending] of Object.entries(endings)) {
      for (const maxTokens of [3, 100]) {
        const controller = new AbortController();
        const session = prompted();
        const told = [];
        const [end, expected] = ending(session, controller);
        const onToken = ({ token }) => {
          told.push(token);
          if (told.length === 5) end();
        };
        const onText = (text) => told.push(text);
        const call = async () => session[generate]({ maxTokens, signal: controller.signal, onToken, onText });
        // Where the third token is the last one, the generation may be over before it is ended.
        if (maxTokens > 3) await assert.rejects(call, expected);
        else await call().catch(() => {});
        assert.equal(told.length, 5, `${name}: ${told}`);
      }
    }
  });

  test(`text that ${generate}() holds back does not come after the last callback has aborted it`, async () => {
    const controller = new AbortController();
    const session = prompted();
    const told = [];
    const onToken = ({ token }) => {
      told.push(token);
      if (told.length === greedy.ids.length) controller.abort();
    };
    const options = { maxTokens: 16, stop: ['girl.!'], onToken, signal: controller.signal };
    await assert.rejects(async () => session[generate](options), { name: 'AbortError' });
    assert.deepEqual(told, greedy.ids);
    assert.deepEqual(session.tokens.slice(4), greedy.ids);
  });
}

test('nothing listens to a signal after the call, however it ended', async () => {
  const { signal } = new AbortController();
  const throwing = () => {
    throw new Error('a callback');
  };
  const leaving = async (stream) => {
    for await (const _ of stream) break;
  };
  const closing = async (session, stream) => {
    for await (const _ of stream) session.close();
  };
  const calls = [
    (session) => session.generate({ maxTokens: 2, signal }),
    (session) => session.generate({ signal, onText: throwing }),
    (session) => session.generateSync({ maxTokens: 2, signal }),
    (session) => session.generateSync({ signal, onText: throwing }),
    (session) => session.evaluate({ signal }),
    (session) => leaving(session.stream({ signal })),
    (session) => closing(session, session.stream({ signal })),
    (session) => Promise.all([session.generate({ maxTokens: 9 }), session.stream({ signal }).next()]),
    () => Model.load(modelPath, { signal }),
    () => Model.load('no such model', { signal }),
  ];
  for (const call of calls) {
    await Promise.resolve(prompted())
      .then(call)
      .catch(() => {});
    assert.equal(getEventListeners(signal, 'abort').length, 0, String(call));
  }
});
