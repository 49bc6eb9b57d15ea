// How handles, sessions in use, worker threads and the process end.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Chat, Detokenizer, Engine, Grammar, KvCache, KvStore, Matcher, Model } from 'qinfer';
import { Reply, Runtime, Session } from 'qinfer';
import { cases, chatModel, failsWith, grammars, here, inProcess, lasting, model, modelPath } from './support.mjs';
import { prelude, prompted, temporaryFolder, worker } from './support.mjs';

const endless = { maxTokens: 250, onText: undefined };

test('a session in use refuses every other call, and is free again after it', async () => {
  const session = lasting();
  const running = session.generate(endless);
  const uses = {
    generate: () => session.generate({ maxTokens: 1 }),
    generateSync: () => session.generateSync({ maxTokens: 1 }),
    stream: () => session.stream({ maxTokens: 1 }).next(),
    evaluate: () => session.evaluate(),
    sample: () => session.sample(),
    append: () => session.append([1]),
    setTokens: () => session.setTokens([1]),
    truncate: () => session.truncate(0),
    length: () => session.length,
    tokens: () => session.tokens,
    logits: () => session.logits(),
    fork: () => session.fork(),
    save: () => session.save('nowhere'),
    setSampler: () => session.setSampler({}),
    setLogitsHook: () => session.setLogitsHook(() => {}),
  };
  for (const use of Object.values(uses)) {
    assert.match((await failsWith('QINFER_E_STATE', use)).message, /another call is using the session/);
  }
  await running;
  assert.equal(session.length, 254);
});

test('closing a session ends the call that uses it with a clean error', async () => {
  const session = lasting();
  const running = session.generate(endless);
  session.close();
  await failsWith('QINFER_E_CANCELLED', () => running);
  await failsWith('QINFER_E_STATE', () => session.length);

  const streamed = lasting();
  await failsWith('QINFER_E_CANCELLED', async () => {
    for await (const _ of streamed.stream({ ...endless, ahead: 1 })) streamed.close();
  });
});

test('closing a session in a callback of its own call ends the call', async () => {
  for (const generate of ['generate', 'generateSync']) {
    const session = lasting();
    session.setLogitsHook(() => session.close());
    await failsWith('QINFER_E_CANCELLED', () => session[generate](endless));
    assert.equal(session.closed, true);
  }
  const session = lasting();
  session.setLogitsHook({ apply() {}, rewind: () => session.close() });
  session.generateSync({ maxTokens: 4 });
  session.truncate(5);
  await failsWith('QINFER_E_STATE', () => session.length);
});

test('everything else may be closed during a call, which goes on', async () => {
  const runtime = new Runtime({ threads: 1 });
  const own = await Model.load(modelPath, { runtime });
  const cache = new KvCache(own);
  const session = new Session(cache);
  session.append(cases.greedy[0].prompt);
  const running = session.generate({ maxTokens: 16 });
  for (const handle of [cache, own, runtime]) handle.close();
  assert.equal((await running).text, cases.greedy[0].text);
  const loading = Model.load(modelPath, { runtime: new Runtime({ threads: 1 }) });
  assert.equal((await loading).info.nVocab, model.info.nVocab);
});

test('a session is freed when it is closed, and not when its calls are collected', async () => {
  const cache = new KvCache(model, { budgetBlocks: 16 });
  for (const use of [
    (session) => session.generate({ maxTokens: 4 }),
    (session) => session.generateSync({ maxTokens: 4 }),
    (session) => session.stream({ maxTokens: 4 }).next(),
    (session) => session.evaluate().then(() => session.sample()),
    (session) => session.generate({ signal: AbortSignal.abort() }).catch(() => session.evaluate()),
  ]) {
    const session = new Session(cache);
    session.append('Once upon a time');
    await use(session);
    assert.equal(cache.stats.blocksUsed, 1);
    session.close();
    for (let round = 0; round < 50 && cache.stats.blocksUsed !== 0; round++) await sleep(5);
    assert.equal(cache.stats.blocksUsed, 0, String(use));
  }
});

test('what nothing refers to is freed, a session whose hook refers to it too', async () => {
  const cache = new KvCache(model, { budgetBlocks: 16 });
  (() => {
    const session = new Session(cache);
    session.append('Once upon a time');
    session.setLogitsHook(() => void session.length);
    session.generateSync({ maxTokens: 2 });
  })();
  assert.equal(cache.stats.blocksUsed, 1);
  for (let round = 0; round < 100 && cache.stats.blocksUsed !== 0; round++) {
    globalThis.gc();
    await sleep(5);
  }
  assert.equal(cache.stats.blocksUsed, 0);
});

test('a hook outlives the collector while its session lives', async () => {
  const session = prompted(cases.hook.prompt);
  session.setLogitsHook((logits) => void (logits[cases.hook.ban] = -Infinity));
  for (let round = 0; round < 5; round++) {
    globalThis.gc();
    await sleep(1);
  }
  assert.equal((await session.generate({ maxTokens: cases.hook.new_tokens })).text, cases.hook.text);
  const fork = session.fork();
  assert.deepEqual([fork.logitsHook, fork.info.hasLogitsHook, session.info.hasLogitsHook], [null, false, true]);
});

test('every kind of handle is closed twice and refuses what comes after', async (t) => {
  const messages = [{ role: 'user', content: 'Hello!' }];
  const handles = [
    [new Runtime(), (each) => each.info],
    [Model.loadSync(modelPath), (each) => each.tokenize('a')],
    [new KvCache(model), (each) => each.stats],
    [new KvStore(new KvCache(model, { prefix: true }), temporaryFolder(t), 1), (each) => each.stats],
    [new Session(model), (each) => each.tokens],
    [new Detokenizer(model), (each) => each.push(1)],
    [new Engine(new KvCache(model)), (each) => each.stats],
    [new Reply(chatModel, messages), (each) => each.push(1)],
  ];
  if (!grammars.skip) {
    handles.push([Grammar.regexSync(model, 'a'), (each) => each.info]);
    handles.push([new Matcher(Grammar.regexSync(model, 'a')), (each) => each.mask()]);
  }
  for (const [handle, use] of handles) {
    use(handle);
    assert.equal(handle.closed, false);
    handle.close();
    handle[Symbol.dispose]();
    assert.equal(handle.closed, true);
    const error = await failsWith('QINFER_E_STATE', () => use(handle));
    assert.equal(error.message, `this ${handle.constructor.name} is closed`);
  }
  const chat = new Chat(chatModel);
  chat.close();
  await chat.send('Hello!');
  chat.close();
  chat[Symbol.dispose]();
});

test('a process ends cleanly in the midst of a call, however it ends', async () => {
  const ends = {
    'process.exit()': [7, 'session.generate({ maxTokens: 250 }); setTimeout(() => process.exit(7), 3);'],
    'process.exit() in a hook': [7, 'session.setLogitsHook(() => process.exit(7)); session.generate();'],
    'process.exit() in a callback': [7, 'session.generateSync({ onText: () => process.exit(7) });'],
    'process.exit() in a stream': [7, 'for await (const text of session.stream({ ahead: 1 })) process.exit(7);'],
    'an exception': [1, "session.generate(); setTimeout(() => { throw new Error('an exception'); }, 3);"],
    'a stream that nobody reads on': [0, 'await session.stream({ ahead: 1 }).next();'],
    'a running call is waited for': [
      0,
      "session.generate({ maxTokens: 250 }).then(() => console.log('over'));",
      'over\n',
    ],
  };
  for (const [name, [status, code, output]] of Object.entries(ends)) {
    for (let round = 0; round < 3; round++) {
      const ended = await inProcess(prelude + code);
      assert.deepEqual(ended.slice(0, 2), [status, null], `${name}: ${ended[3]}`);
      assert.equal(ended[2], output ?? '', name);
      if (status !== 1) assert.equal(ended[3], '', name);
    }
  }
});

test('the package prints nothing of its own, and is loaded by require() and import alike', async () => {
  const run = promisify(execFile);
  const code = "import('qinfer').then((q) => console.log(q.Model === require('qinfer').Model, typeof q.version()))";
  const { stdout, stderr } = await run(process.execPath, ['-e', code], { cwd: here });
  assert.deepEqual([stdout, stderr], ['true string\n', '']);
});

test('worker threads have the addon each for themselves', async () => {
  const code = `
    let text = '';
    for await (const piece of session.stream({ maxTokens: 16 })) text += piece;
    parentPort.postMessage(text);
  `;
  const texts = await Promise.all(
    [worker(code), worker(code)].map(async (each) => {
      const [[text], [status]] = await Promise.all([once(each, 'message'), once(each, 'exit')]);
      assert.equal(status, 0);
      return text;
    }),
  );
  assert.deepEqual(texts, Array(2).fill(cases.greedy[0].text));
  assert.equal((await prompted().generate({ maxTokens: 16 })).text, cases.greedy[0].text);
});

test('a worker thread is terminated in the midst of a call', async () => {
  const calls = [
    "session.generate(); parentPort.postMessage('running');",
    "session.setLogitsHook(() => {}); session.generate(); parentPort.postMessage('running');",
    "session.setLogitsHook(() => { parentPort.postMessage('running'); for (;;); }); session.generate();",
    "parentPort.postMessage('running'); for await (const _ of session.stream({ ahead: 1 }));",
    "await session.stream({ ahead: 1 }).next(); parentPort.postMessage('running'); setInterval(() => {}, 1000);",
    "session.generateSync({ onText() { parentPort.postMessage('running'); } });",
  ];
  for (const code of calls) {
    const each = worker(code);
    await once(each, 'message');
    await sleep(2);
    await each.terminate();
  }
  assert.equal((await prompted().generate({ maxTokens: 16 })).text, cases.greedy[0].text);
});
