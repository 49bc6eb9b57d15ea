// How engines are closed, collected, and end with their thread, with worker threads and with the process.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Engine, KvCache, Model, Runtime } from 'qinfer';
import { cases, failsWith, inProcess, lasting, model, modelPath, prelude, prompted, worker } from './support.mjs';

const [greedy] = cases.greedy;

/** How many threads this process has. */
function threads() {
  return readdirSync('/proc/self/task').length;
}

async function collected(condition) {
  for (let round = 0; round < 200 && !condition(); round++) {
    globalThis.gc();
    await sleep(5);
  }
  assert.ok(condition(), String(condition));
}

test('closing an engine ends all its requests, and their sessions are free again', async () => {
  const cache = new KvCache(model, { budgetBlocks: 40 });
  const engine = new Engine(cache, { maxRunning: 2 });
  const sessions = Array.from({ length: 5 }, () => lasting(cache));
  let read = 0;
  const reading = async (session) => {
    for await (const _ of engine.stream(session)) if (++read === 3) engine.close();
  };
  const ended = await Promise.allSettled([
    reading(sessions[0]),
    reading(sessions[1]),
    engine.generate(sessions[2]),
    engine.generate(sessions[3], { onText() {} }),
    reading(sessions[4]),
  ]);
  for (const { reason } of ended) {
    assert.equal(reason?.code, 'QINFER_E_STATE', reason?.stack);
    assert.equal(reason.message, 'the engine was closed');
  }
  engine.close();
  engine[Symbol.dispose]();
  assert.equal(engine.closed, true);
  for (const session of sessions) {
    const { length } = session;
    assert.equal(session.generateSync({ maxTokens: 2 }).newTokens, 2);
    assert.equal(session.length, length + 2);
    session.close();
  }
  assert.equal(cache.stats.blocksUsed, 0);
  const session = prompted(undefined, undefined, cache);
  for (const use of [
    () => engine.generate(session),
    () => engine.stream(session).next(),
    () => engine.streamTokens(session).next(),
    () => engine.stats,
  ])
    assert.match((await failsWith('QINFER_E_STATE', use)).message, /this Engine is closed/);
  session.append([1]);
  const other = new Engine(cache);
  const closed = other.stream(session);
  session.close();
  assert.match((await failsWith('QINFER_E_STATE', () => closed.next())).message, /this Session is closed/);
  other.close();
});

test('a request that its signal has ended says so, whatever closes then', async () => {
  const engine = new Engine(new KvCache(model, { budgetBlocks: 16 }));
  const controller = new AbortController();
  const running = engine.generate(lasting(engine.cache), { maxTokens: 100, signal: controller.signal });
  await sleep(2);
  controller.abort();
  engine.close();
  await assert.rejects(running, { name: 'AbortError' });
});

test('closing at any moment leaves nobody waiting', async () => {
  const cache = new KvCache(model, { budgetBlocks: 60 });
  for (let at = 0; at < 60; at++) {
    const engine = new Engine(cache);
    const sessions = Array.from({ length: 4 }, () => prompted(undefined, undefined, cache));
    const calls = sessions.map((session, n) =>
      n % 2 ? engine.generate(session, { maxTokens: 20 }) : engine.stream(session, { maxTokens: 20 }).next(),
    );
    const settled = Promise.allSettled(calls);
    if (at % 2) await sleep(at / 4);
    else for (let turn = 0; turn < at; turn++) await null;
    engine.close();
    for (const { reason } of await settled) assert.ok(reason === undefined || reason.code === 'QINFER_E_STATE', reason);
    for (const session of sessions) session.close();
  }
  for (let round = 0; round < 100 && cache.stats.blocksUsed !== 0; round++) await sleep(5);
  assert.equal(cache.stats.blocksUsed, 0);
});

test('an engine may be closed by a hook and by a callback of its own requests', async () => {
  const cache = new KvCache(model, { budgetBlocks: 16 });
  const hooked = new Engine(cache);
  const session = lasting(cache);
  session.setLogitsHook(() => hooked.close());
  await failsWith('QINFER_E_STATE', () => hooked.generate(session));
  session.setLogitsHook(null);
  const called = new Engine(cache);
  await failsWith('QINFER_E_STATE', () => called.generate(session, { onText: () => called.close() }));
  session.close();
});

test('everything else may be closed while an engine draws', async () => {
  const own = await Model.load(modelPath, { runtime: new Runtime({ threads: 1 }) });
  const cache = new KvCache(own);
  const engine = new Engine(cache);
  const session = prompted(undefined, undefined, cache);
  const running = engine.generate(session, { maxTokens: 16 });
  for (const handle of [cache, own]) handle.close();
  assert.equal((await running).text, greedy.text);
  assert.equal((await engine.generate(session, { maxTokens: 4 })).newTokens, 4);
  engine.close();
});

test('an engine that nothing refers to is freed, with its thread', async () => {
  const cache = new KvCache(model, { budgetBlocks: 16 });
  const before = threads();
  for (let n = 0; n < 3; n++)
    await (async () => {
      const session = prompted(undefined, undefined, cache);
      assert.equal((await new Engine(cache).generate(session, { maxTokens: 4 })).newTokens, 4);
      session.close();
    })();
  await collected(() => threads() <= before && cache.stats.blocksUsed === 0);
  // It lives while a stream of it is read, and a stream that is forgotten ends its request.
  const session = lasting(cache);
  const stream = new Engine(cache).stream(session, { maxTokens: 60 });
  await stream.next();
  globalThis.gc();
  for await (const _ of stream);
  assert.equal(stream.result.newTokens, 60);
  await (async () => {
    await new Engine(cache).stream(session).next();
  })();
  await collected(() => {
    try {
      return session.length > 0 && threads() <= before;
    } catch (error) {
      assert.equal(error.code, 'QINFER_E_STATE');
      return false;
    }
  });
});

test('sessions with hooks are freed on the right thread, closed while they are drawn', async () => {
  const cache = new KvCache(model, { budgetBlocks: 30 });
  const engine = new Engine(cache);
  for (let round = 0; round < 20; round++) {
    const sessions = Array.from({ length: 4 }, () => lasting(cache));
    for (const session of sessions) session.setLogitsHook({ apply() {}, rewind() {} });
    const calls = sessions.map((session, n) => (n % 2 ? engine.generate(session) : engine.stream(session).next()));
    const settled = Promise.allSettled(calls);
    await sleep(round / 10);
    for (const session of sessions) session.close();
    await settled;
    globalThis.gc();
  }
  await collected(() => cache.stats.blocksUsed === 0);
  engine.close();
});

const begin = `
  import { Engine } from 'qinfer';
  const engine = new Engine(session.cache);
`;

test('a process ends cleanly with an engine, however it ends', async () => {
  const ends = {
    'nothing is submitted': [0, ''],
    'nothing is closed': [0, 'console.log((await engine.generate(session, { maxTokens: 3 })).newTokens);', '3\n'],
    'a running request is waited for': [0, "engine.generate(session).then(() => console.log('over'));", 'over\n'],
    'a stream that nobody reads on': [0, 'await engine.stream(session).next();'],
    'process.exit()': [7, 'engine.generate(session); setTimeout(() => process.exit(7), 3);'],
    'process.exit() of an engine at rest': [7, 'await engine.generate(session, { maxTokens: 3 }); process.exit(7);'],
    'process.exit() in a hook': [7, 'session.setLogitsHook(() => process.exit(7)); engine.generate(session);'],
    'process.exit() in a stream': [7, 'for await (const text of engine.stream(session)) process.exit(7);'],
    'close() and process.exit()': [7, 'engine.generate(session).catch(() => {}); engine.close(); process.exit(7);'],
    'an exception': [1, "engine.generate(session); setTimeout(() => { throw new Error('an exception'); }, 3);"],
    'close()': [
      0,
      'engine.generate(session).catch(({ code }) => console.log(code)); engine.close();',
      'QINFER_E_STATE\n',
    ],
  };
  for (const [name, [status, code, output]] of Object.entries(ends)) {
    for (let round = 0; round < 2; round++) {
      const ended = await inProcess(prelude + begin + code);
      assert.deepEqual(ended.slice(0, 2), [status, null], `${name}: ${ended[3]}`);
      assert.equal(ended[2], output ?? '', name);
      if (status !== 1) assert.equal(ended[3], '', name);
    }
  }
});

test('worker threads have engines each for themselves', async () => {
  const code = `
    session.setBias(new Map());
    parentPort.postMessage((await engine.generate(session, { maxTokens: 16 })).text);
  `;
  const texts = await Promise.all(
    [worker(begin + code), worker(begin + code)].map(async (each) => {
      const [[text], [status]] = await Promise.all([once(each, 'message'), once(each, 'exit')]);
      assert.equal(status, 0);
      return text;
    }),
  );
  assert.deepEqual(texts, Array(2).fill(greedy.text));
});

test('a worker thread is terminated while its engine draws, and its threads end', async () => {
  const calls = [
    "parentPort.postMessage('rests'); setInterval(() => {}, 1000);",
    "await engine.generate(session, { maxTokens: 2 }); parentPort.postMessage('rests'); setInterval(() => {}, 1000);",
    "engine.generate(session); parentPort.postMessage('running');",
    "session.setLogitsHook(() => {}); engine.generate(session); parentPort.postMessage('running');",
    "session.setLogitsHook(() => { parentPort.postMessage('running'); for (;;); }); engine.generate(session);",
    "parentPort.postMessage('running'); for await (const _ of engine.stream(session));",
    "await engine.stream(session).next(); parentPort.postMessage('running'); setInterval(() => {}, 1000);",
    "engine.generate(session).catch(() => {}); engine.close(); parentPort.postMessage('closed'); setInterval(() => {}, 1000);",
  ];
  const before = threads();
  for (const code of calls) {
    const each = worker(begin + code);
    await once(each, 'message');
    await sleep(2);
    await each.terminate();
  }
  await collected(() => threads() <= before);
  assert.equal((await prompted().generate({ maxTokens: 16 })).text, greedy.text);
});

test('an engine at rest does not wake', async () => {
  const tasks = () => readdirSync('/proc/self/task');
  const before = tasks();
  const engine = new Engine(new KvCache(model));
  await engine.generate(prompted(undefined, undefined, engine.cache), { maxTokens: 2 });
  const own = tasks().filter((id) => !before.includes(id));
  assert.ok(own.length > 0);
  const wakes = () =>
    own.map((id) => /^voluntary_ctxt_switches:\s*\d+$/m.exec(readFileSync(`/proc/self/task/${id}/status`, 'utf8'))[0]);
  await sleep(20); // until it rests
  const rested = wakes();
  await sleep(300);
  assert.deepEqual(wakes(), rested);
  engine.close();
});
