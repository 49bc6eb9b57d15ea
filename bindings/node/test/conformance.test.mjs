// The cases that every binding must do alike (bindings/conformance).
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  Cancel,
  Chat,
  evaluate,
  evaluateSync,
  Grammar,
  KvCache,
  Model,
  QinferError,
  Reply,
  Runtime,
  Session,
} from 'qinfer';
import {
  cases,
  chatModel,
  failsWith,
  grammars,
  MemoryStore,
  model,
  modelPath,
  prompted,
  root,
  temporaryFolder,
} from './support.mjs';

test('every key of the cases is covered here', () => {
  const covered = ['model', 'chat_model', 'greedy', 'stop', 'roundtrip', 'chat', 'call', 'hook', 'prefix'];
  assert.deepEqual(Object.keys(cases).sort(), [...covered, 'snapshot', 'concurrent', 'errors', 'schema'].sort());
});

test('greedy: one call gives the text and the ids, on a thread and at once', async () => {
  for (const each of cases.greedy) {
    const ids = [];
    const onToken = ({ token }) => void ids.push(token);
    const done = await prompted(each.prompt).generate({ maxTokens: each.new_tokens, onToken });
    assert.deepEqual([ids, done.text, done.newTokens], [each.ids, each.text, each.new_tokens]);
    assert.equal((await prompted(each.prompt).generate({ maxTokens: each.new_tokens })).text, each.text);
    ids.length = 0;
    const sync = prompted(each.prompt).generateSync({ maxTokens: each.new_tokens, onToken });
    assert.deepEqual([ids, sync.text], [each.ids, each.text]);
    assert.equal(model.detokenize(each.ids), each.text);
  }
});

test('greedy: token by token gives the same ids, on a thread and at once', async () => {
  for (const each of cases.greedy) {
    const [session, other] = [prompted(each.prompt), prompted(each.prompt)];
    const ids = [];
    for (let at = 0; at < each.new_tokens; at++) {
      await session.evaluate();
      ids.push(await session.sample());
      other.evaluateSync();
      assert.equal(other.sampleSync(), ids.at(-1));
    }
    assert.deepEqual(ids, each.ids);
  }
});

test('greedy: a batch of sessions gives the same ids', async () => {
  const cache = new KvCache(model, { budgetBlocks: 16 });
  const sessions = cases.greedy.map(() => new Session(cache, { maxTokens: 64 }));
  sessions.forEach((session, at) => session.append(cases.greedy[at].prompt));
  const drawn = sessions.map(() => []);
  for (let at = 0; at < 16; at++) {
    if (at % 2 === 0) await evaluate(sessions);
    else evaluateSync(sessions);
    sessions.forEach((session, which) => drawn[which].push(session.sampleSync()));
  }
  assert.deepEqual(
    drawn,
    cases.greedy.map((each) => each.ids),
  );
});

test('greedy: a stream gives the text in pieces, and one that is left leaves a session that goes on', async () => {
  for (const each of cases.greedy) {
    const pieces = [];
    for await (const text of prompted(each.prompt).stream({ maxTokens: each.new_tokens })) pieces.push(text);
    assert.equal(pieces.join(''), each.text);
    assert.ok(pieces.length > 5);
    const session = prompted(each.prompt);
    let seen = '';
    for await (const text of session.stream({ maxTokens: 100 })) {
      seen += text;
      break;
    }
    assert.equal(seen + (await session.generate({ maxTokens: 15 })).text, each.text);
  }
});

test('stop: texts end before the stop text', async () => {
  for (const { prompt, new_tokens: maxTokens, stop, text, finish } of cases.stop) {
    const done = await prompted(prompt).generate({ maxTokens, stop });
    assert.deepEqual([done.text, done.finish], [text, finish]);
    let streamed = '';
    const stream = prompted(prompt).stream({ maxTokens, stop });
    for await (const piece of stream) streamed += piece;
    assert.deepEqual([streamed, stream.result.finish], [text, finish]);
  }
});

test('roundtrip: texts come back from their tokens', () => {
  for (const text of cases.roundtrip) assert.equal(model.detokenize(model.tokenize(text, { special: false })), text);
});

test('chat: conversations are answered, streamed and at once', async () => {
  for (const { messages, reply } of cases.chat) {
    const chat = new Chat(chatModel, { messages: [...messages] });
    let text = '';
    for await (const part of chat.stream(null)) text += part.kind === 'content' ? part.text : '';
    assert.deepEqual([text, chat.messages.at(-1).content], [reply, reply]);
    assert.equal(await new Chat(chatModel).send(messages.at(-1).content), reply);
  }
});

test('call: the name is whole', () => {
  const reply = new Reply(chatModel, cases.chat[0].messages);
  const parts = chatModel.tokenize(cases.call.text, { parseSpecial: true }).flatMap((token) => reply.push(token));
  parts.push(...reply.finish());
  assert.deepEqual(
    parts.map(({ kind, name }) => [kind, name]),
    [['call', cases.call.name]],
  );
});

test('hook: a token is banned, and every token is seen, on a thread and at once', async () => {
  const { prompt, new_tokens: maxTokens, ban, ids, text } = cases.hook;
  for (const generate of ['generate', 'generateSync']) {
    const seen = [];
    const session = prompted(prompt);
    session.setLogitsHook({
      apply(logits) {
        assert.equal(logits.length, model.info.nVocab);
        logits[ban] = -Infinity;
      },
      accept: (token) => void seen.push(token),
    });
    assert.equal((await session[generate]({ maxTokens })).text, text);
    assert.deepEqual(seen, ids);
  }
});

test('schema: documents that are drawn to their end fulfil it', grammars, async () => {
  const grammar = await Grammar.jsonSchema(model, cases.schema);
  let ended = 0;
  for (let seed = 0; seed < 5; seed++) {
    const session = prompted('Lily: ');
    session.setSampler({ temperature: 1.5, seed });
    session.setGrammar(grammar);
    const { text, finish } = await session.generate({ maxTokens: 200 });
    if (finish !== 'end') continue;
    ended++;
    const document = JSON.parse(text);
    assert.deepEqual(Object.keys(document), ['name', 'age']);
    assert.ok([...document.name].length <= 12 && [4, 5].includes(document.age), text);
  }
  assert.ok(ended > 0);
});

test('prefix: the second session finds tokens, the first none', async () => {
  const { text, times, budget_blocks: budgetBlocks } = cases.prefix;
  const cache = new KvCache(model, { prefix: true, budgetBlocks });
  for (const found of [false, true]) {
    const session = new Session(cache);
    session.append(text.repeat(times));
    const { cachedTokens } = await session.generate({ maxTokens: 1 });
    assert.equal(cachedTokens > 0, found);
    session.close();
  }
  assert.ok(cache.stats.blocksCached > 0);
});

test('snapshot: a fork, a file and a store in memory go on alike', async (t) => {
  const { prompt, before, after, name } = cases.snapshot;
  const file = join(temporaryFolder(t), 'snapshot');
  const store = new MemoryStore();
  const session = prompted(prompt);
  await session.generate({ maxTokens: before });
  await session.save(file);
  session.saveSync(name, { files: store.open });
  assert.deepEqual([[...store.files.keys()], store.opened], [[name], 0]);
  const cache = new KvCache(model, { budgetBlocks: 16 });
  const others = [
    session.fork(),
    await Session.load(cache, file),
    Session.loadSync(cache, file),
    Session.loadSync(cache, name, { files: store.open }),
  ];
  assert.equal(store.opened, 0);
  assert.deepEqual(others[1].loaded.recovered, false);
  const rest = (await session.generate({ maxTokens: after })).text;
  assert.ok(rest.length > 0 && cases.greedy[0].text.endsWith(rest));
  for (const other of others) {
    assert.equal((await other.generate({ maxTokens: after })).text, rest);
    assert.deepEqual(other.tokens, session.tokens);
  }
});

test('concurrent: sessions of one cache on threads of their own', async () => {
  const { sessions, rounds, budget_blocks: budgetBlocks, max_tokens: maxTokens } = cases.concurrent;
  const cache = new KvCache(model, { budgetBlocks });
  const run = async (each) => {
    const session = new Session(cache, { maxTokens });
    const texts = [];
    for (let round = 0; round < rounds; round++) {
      session.setTokens(model.tokenize(each.prompt));
      texts.push((await session.generate({ maxTokens: each.new_tokens })).text);
    }
    assert.deepEqual(texts, Array(rounds).fill(each.text));
    return texts.length;
  };
  const done = await Promise.all(Array.from({ length: sessions }, (_, at) => run(cases.greedy[at % 2])));
  assert.deepEqual(done, Array(sessions).fill(rounds));
});

/** What each of the `errors` is provoked with. */
const provocations = {
  load: ({ path }) => Model.load(join(root, path)),
  append: ({ token }) => new Session(model).append([1, token]),
  sample: () => new Session(model).sample(),
  cpu_target: ({ name }) => new Runtime({ cpuTarget: name }),
  budget: ({ bytes }) => Model.load(modelPath, { memoryBudget: bytes }),
  files_io: ({ says, status }) => Session.loadSync(new KvCache(model), says, { files: () => status }),
  async buffer() {
    const session = prompted();
    await session.evaluate();
    session.copyLogits(new Float32Array(1));
  },
  kv_full() {
    const session = new Session(new KvCache(model, { budgetBlocks: 1 }));
    session.append(Array(100).fill(1));
    return session.evaluate();
  },
  context_full: () => new Session(model, { maxTokens: 4 }).append(Array(5).fill(1)),
  cancelled() {
    const cancel = new Cancel();
    cancel.request();
    return prompted().evaluate({ cancel });
  },
  async ban_all() {
    const session = prompted();
    await session.evaluate();
    session.setBias(new Map(Array.from({ length: model.info.nVocab }, (_, token) => [token, -Infinity])));
    return session.sample();
  },
  snapshot: ({ path }) => Session.load(new KvCache(model), join(root, path)),
  save: ({ path, folder }) => prompted().save(join(folder, path)),
};

test('errors: calls that fail carry status, message and detail', async (t) => {
  const folder = temporaryFolder(t);
  for (const each of cases.errors) {
    await assert.rejects(
      async () => provocations[each.call]({ ...each, folder }),
      (error) => {
        assert.ok(error instanceof QinferError, `${each.call}: ${error.stack}`);
        assert.deepEqual([error.status, error.detail], [each.status, each.detail ?? error.detail], each.call);
        assert.ok(error.message.includes(each.says), `${each.call}: ${error.message}`);
        return true;
      },
    );
  }
  const provoked = new Set(cases.errors.map(({ status }) => status));
  assert.deepEqual(
    [...provoked].sort((a, b) => b - a),
    Array.from({ length: 12 }, (_, at) => -2 - at),
  );
});

test('every status has its name, and one that is not known is an error too', () => {
  const names = Array.from({ length: 13 }, (_, at) => new QinferError(-1 - at, 'what', 7).code);
  assert.equal(new Set(names).size, 13);
  assert.ok(names.every((name) => name.startsWith('QINFER_E_')));
  assert.deepEqual([names[0], names[9]], ['QINFER_E_INTERNAL', 'QINFER_E_KV_FULL']);
  const error = new QinferError(-1, 'what', 7);
  assert.deepEqual([error.status, error.message, error.detail, String(error)], [-1, 'what', 7, 'QinferError: what']);
  assert.equal(typeof new QinferError(-99, 'new').code, 'string');
});

test('a cancel ends a generation on another thread, which goes on after a reset', async () => {
  const cancel = new Cancel();
  const session = prompted();
  assert.equal(cancel.requested, false);
  setTimeout(() => cancel.request(), 20);
  await failsWith('QINFER_E_CANCELLED', async () => {
    for (;;) {
      await session.generate({ maxTokens: 100, cancel });
      session.truncate(4);
    }
  });
  await failsWith('QINFER_E_CANCELLED', () => session.generate({ maxTokens: 1, cancel }));
  assert.equal(cancel.requested, true);
  cancel.reset();
  assert.equal(cancel.requested, false);
  session.truncate(4);
  assert.equal((await session.generate({ maxTokens: 16, cancel })).text, cases.greedy[0].text);
});

test('handles are closed in any order and more than once', async () => {
  const runtime = new Runtime({ threads: 1 });
  const own = Model.loadSync(modelPath, { runtime });
  const cache = new KvCache(own);
  const session = new Session(cache);
  session.append('Once upon a time');
  for (const handle of [runtime, cache, own]) {
    handle.close();
    handle.close();
    assert.equal(handle.closed, true);
  }
  assert.equal((await session.generate({ maxTokens: 16 })).text, cases.greedy[0].text);
  session.close();
  session.close();
  for (const use of [
    () => session.evaluate(),
    () => session.append([1]),
    () => session.length,
    () => own.tokenize('a'),
  ]) {
    assert.match((await failsWith('QINFER_E_STATE', use)).message, /this \w+ is closed/);
  }
  await failsWith('QINFER_E_STATE', () => new Session(cache));
  await failsWith('QINFER_E_STATE', () => Model.load(modelPath, { runtime }));
});
