// Grammars: what is drawn fulfils them, alone, in chats, in engines and after a snapshot; matchers by hand; mistakes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Chat, Engine, Grammar, KvCache, Matcher, Model, Session } from 'qinfer';
import { cases, chatModel, failsWith, grammars, inProcess, model, modelPath, prelude } from './support.mjs';
import { prompted, root, temporaryFolder, worker } from './support.mjs';

const threeLetters = () => Grammar.regexSync(model, '[a-c]{3}');
const sure = {
  type: 'object',
  properties: { sure: { type: 'boolean' } },
  required: ['sure'],
  additionalProperties: false,
};

test('what is drawn fulfils the grammar, in every way to generate', grammars, async () => {
  const grammar = await Grammar.regex(model, '[a-c]{3}');
  const ways = {
    generate: async (session) => (await session.generate({ maxTokens: 10 })).text,
    generateSync: (session) => session.generateSync({ maxTokens: 10 }).text,
    async stream(session) {
      let text = '';
      for await (const piece of session.stream({ maxTokens: 10 })) text += piece;
      return text;
    },
    async sample(session) {
      const tokens = [];
      for (let token = 0; !model.endTokens.includes(token); tokens.push(token)) {
        await session.evaluate();
        token = await session.sample();
      }
      return model.detokenize(tokens);
    },
  };
  for (const [name, way] of Object.entries(ways)) {
    const session = prompted('Lily: ');
    session.setGrammar(grammar);
    const fork = session.fork();
    assert.deepEqual([session.grammar, session.logitsHook, fork.grammar], [grammar, null, grammar]);
    const text = await way(session);
    assert.match(text, /^[a-c]{3}$/, name);
    assert.equal(await way(fork), text, name);
  }
  const lark = await Grammar.lark(model, 'start: "a" DIGITS\nDIGITS: /[0-9]{2}/');
  const session = prompted('Lily: ');
  session.setGrammar(lark);
  lark.close(); // the session has what it needs
  assert.match((await session.generate({ maxTokens: 10 })).text, /^a[0-9]{2}$/);
  session.setGrammar(null);
  assert.deepEqual([session.info.hasLogitsHook, session.grammar], [false, null]);
});

test('a grammar and a hook take the place of each other', grammars, async () => {
  const session = prompted('Lily: ');
  session.setLogitsHook(() => assert.fail('the hook was asked'));
  session.setGrammar(threeLetters());
  assert.equal(session.logitsHook, null);
  assert.match((await session.generate({ maxTokens: 10 })).text, /^[a-c]{3}$/);
  let asked = 0;
  session.setLogitsHook(() => void asked++);
  assert.equal(session.grammar, null);
  session.truncate(2);
  await session.generate({ maxTokens: 2 });
  assert.equal(asked, 2);
});

test('tokens that are taken back are drawn again', grammars, async () => {
  const session = prompted('Lily: ');
  session.setGrammar(threeLetters());
  const { length } = session;
  let first = '';
  for await (const text of session.stream({ ahead: 8 })) {
    first = text;
    break;
  }
  const rest = (await session.generate({ maxTokens: 10 })).text;
  assert.match(first + rest, /^[a-c]{3}$/);
  session.truncate(length);
  assert.equal((await session.generate({ maxTokens: 10 })).text, first + rest);
});

test('schemas are objects, JSON, true or false, and warn', grammars, async () => {
  for (const schema of [{ enum: [4, 5] }, '{"enum": [4, 5]}', JSON.parse('{"enum": [4, 5]}')]) {
    const grammar = await Grammar.jsonSchema(model, schema);
    assert.deepEqual(grammar.info, { kind: 'jsonSchema', nTokens: model.info.nVocab, nWarnings: 0 });
    const session = prompted('Lily is ');
    session.setGrammar(grammar);
    assert.match((await session.generate({ maxTokens: 5 })).text, /^[45]$/);
  }
  assert.equal(Grammar.jsonSchemaSync(model, true).info.kind, 'jsonSchema');
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => Grammar.jsonSchema(model, false)); // nothing fulfils it
  // A document whose only property is another one fulfils it, and is not drawn.
  const warned = await Grammar.jsonSchema(model, { type: 'object', properties: { a: true }, minProperties: 1 });
  assert.ok(warned.info.nWarnings > 0);
  assert.deepEqual(
    [Grammar.regexSync(model, 'a').info.kind, Grammar.larkSync(model, 'start: "a"').info.kind],
    ['regex', 'lark'],
  );
});

test('a schema may have any white space', grammars, () => {
  for (const anySpace of [false, true]) {
    const matcher = new Matcher(Grammar.jsonSchemaSync(model, { type: 'array' }, { anySpace }));
    matcher.accept(model.tokenize('[', { special: false }));
    const space = () => matcher.accept(model.tokenize('\n'.repeat(60), { special: false }));
    if (anySpace) space();
    else assert.throws(space, { code: 'QINFER_E_INVALID_ARGUMENT' });
  }
});

test('mistakes are errors with the place, in both forms', grammars, async () => {
  const of = {
    jsonSchema: [Grammar.jsonSchema, Grammar.jsonSchemaSync],
    regex: [Grammar.regex, Grammar.regexSync],
    lark: [Grammar.lark, Grammar.larkSync],
  };
  for (const [kind, text, options, code, says, detail] of [
    ['regex', 'a(b', {}, 'FORMAT', 'unclosed group', 0],
    ['lark', 'start: foo', {}, 'FORMAT', 'foo', 0],
    ['jsonSchema', '{"type":"arr', {}, 'FORMAT', 'not JSON', 11],
    ['jsonSchema', { uniqueItems: true }, {}, 'UNSUPPORTED', 'uniqueItems', 0],
    ['jsonSchema', '{"é":\0', {}, 'INVALID_ARGUMENT', 'NUL', 6],
    ['regex', 'abcd', { maxSourceBytes: 3 }, 'UNSUPPORTED', 'max_source_bytes is 3', 4],
    ['regex', 'a((b))', { maxDepth: 1 }, 'UNSUPPORTED', 'max_depth', 2],
    ['regex', 'a|b', { maxSymbols: 1 }, 'UNSUPPORTED', 'limit', 0],
    ['regex', '(a|b)*c', { compileWork: 1n }, 'UNSUPPORTED', 'limit', 0],
    ['regex', 'a', { maxStates: 2 ** 30 }, 'INVALID_ARGUMENT', 'max_states', 0],
    ['regex', 'a', { maxRowItems: 2 ** 30 }, 'INVALID_ARGUMENT', 'max_row_items', 0],
    ['regex', 'a', { maskWork: 1n << 40n }, 'INVALID_ARGUMENT', 'mask_work', 0],
  ]) {
    for (const make of of[kind]) {
      const error = await failsWith(`QINFER_E_${code}`, () => make(model, text, options));
      assert.ok(error.message.includes(says), error.message);
      assert.equal(error.detail, detail, error.message);
    }
  }
  assert.throws(() => new Grammar(), { name: 'TypeError', message: /Grammar\.jsonSchema\(\)/ });
});

test('a grammar that cannot go on says why', grammars, async () => {
  const grammar = Grammar.regexSync(model, '(a|b)*c', { maskWork: 1 });
  const cache = new KvCache(model, { budgetBlocks: 8 });
  const engine = new Engine(cache);
  const made = () => {
    const session = new Session(cache, { maxTokens: 32 });
    session.append('Lily: ');
    session.evaluateSync();
    session.setGrammar(grammar);
    return session;
  };
  const parent = made();
  for (const draw of [
    () => made().generate({ maxTokens: 3 }),
    () => made().generateSync({ maxTokens: 3 }),
    () => made().stream({ maxTokens: 3 }).next(),
    () => made().sample(),
    () => parent.fork().sampleSync(),
    () => engine.generate(made(), { maxTokens: 3 }),
  ]) {
    const error = await failsWith('QINFER_E_CANCELLED', draw);
    assert.match(error.message, /mask_work/);
    assert.deepEqual([error.cause.name, error.cause.code], ['QinferError', 'QINFER_E_UNSUPPORTED'], String(draw));
  }
  engine.close();
  // What ends a call from outside is no fault of the grammar.
  const session = prompted('Lily: ');
  session.setGrammar(threeLetters());
  await assert.rejects(session.generate({ signal: AbortSignal.abort() }), { name: 'AbortError' });
  session.setGrammar(threeLetters());
  assert.match((await session.generate()).text, /^[a-c]{3}$/);
});

/** The tokens of a mask. */
function masked(matcher) {
  const words = matcher.mask();
  assert.deepEqual([words.constructor, words.length], [Uint32Array, Math.ceil(model.info.nVocab / 32)]);
  return Array.from({ length: model.info.nVocab }, (_, token) => token).filter(
    (token) => (words[token >> 5] >>> (token % 32)) & 1,
  );
}

/** The tokens that a pattern lets come first, by their texts alone. */
function matching(pattern) {
  return Array.from({ length: model.info.nVocab }, (_, id) => model.token(id))
    .filter(({ bytes, control }) => !control && pattern.test(Buffer.from(bytes).toString('latin1')))
    .map(({ id }) => id);
}

test('matchers are used by hand', grammars, async () => {
  const matcher = new Matcher(threeLetters());
  const [a] = matching(/^a$/);
  const start = { accepting: false, ended: false, failed: false };
  assert.deepEqual(masked(matcher), matching(/^[a-c]{1,3}$/));
  assert.deepEqual(matcher.info, { ...start, nTokens: 0 });
  matcher.accept([a, a]);
  assert.deepEqual(masked(matcher), matching(/^[a-c]$/));
  assert.equal((await failsWith('QINFER_E_INVALID_ARGUMENT', () => matcher.accept([a, a]))).detail, 1);
  const other = matcher.clone();
  assert.equal(other.model, model);
  matcher.accept(Int32Array.of(a));
  assert.deepEqual(masked(matcher), model.endTokens);
  assert.deepEqual(matcher.info, { accepting: true, ended: true, failed: false, nTokens: 3 });
  assert.deepEqual(other.info, { ...start, nTokens: 2 });
  matcher.rewind(2);
  assert.deepEqual(masked(matcher), matching(/^[a-c]{1,2}$/));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => matcher.rewind(2));
  assert.equal(matcher.error, null);
  const broken = new Matcher(Grammar.regexSync(model, '(a|b)*c', { maskWork: 1 }));
  await failsWith('QINFER_E_UNSUPPORTED', () => broken.mask());
  assert.deepEqual([broken.info.failed, broken.error.code], [true, 'QINFER_E_UNSUPPORTED']);
});

test('a matcher goes on after a snapshot, in one session', grammars, async (t) => {
  const path = join(temporaryFolder(t), 'snapshot');
  const grammar = threeLetters();
  const session = prompted('Lily: ');
  const { length } = session;
  session.setGrammar(grammar);
  const first = (await session.generate({ maxTokens: 1 })).text;
  await session.save(path);
  const loaded = await Session.load(new KvCache(model), path);
  const matcher = new Matcher(grammar);
  matcher.accept(loaded.tokens.slice(length));
  loaded.setGrammar(matcher);
  assert.equal(loaded.grammar, matcher);
  const again = await failsWith('QINFER_E_STATE', () => prompted().setGrammar(matcher));
  assert.match(again.message, /clone\(\)/);
  matcher.close(); // the session has it
  const rest = (await loaded.generate({ maxTokens: 10 })).text;
  assert.match(first + rest, /^[a-c]{3}$/);
  assert.equal((await session.generate({ maxTokens: 10 })).text, rest);
});

test('a grammar is of one model', grammars, async () => {
  const grammar = threeLetters();
  const chat = new Chat(chatModel, { grammar });
  for (const use of [
    () => new Session(chatModel).setGrammar(grammar),
    () => new Session(chatModel).setGrammar(new Matcher(grammar)),
    () => chat.send('Hello!'),
  ])
    assert.match((await failsWith('QINFER_E_INVALID_ARGUMENT', use)).message, /^grammar is of another Model/);
  assert.deepEqual(chat.messages, []);
});

test('all is closed in any order, and freed', grammars, async () => {
  const own = Model.loadSync(modelPath);
  const making = Grammar.regex(own, '[a-c]{3}');
  const session = new Session(own);
  session.append('Lily: ');
  own.close(); // in the midst of the call
  const grammar = await making;
  const matcher = new Matcher(grammar);
  grammar.close();
  session.setGrammar(matcher);
  matcher.close();
  assert.match((await session.generate({ maxTokens: 10 })).text, /^[a-c]{3}$/);
  session.close();
  await failsWith('QINFER_E_STATE', () => Grammar.regex(own, 'a'));
  await failsWith('QINFER_E_STATE', () => new Matcher(grammar));
  await failsWith('QINFER_E_STATE', () => matcher.mask());
});

test('the vocabulary of a model is made once, for calls at once too', grammars, async () => {
  const own = Model.loadSync(modelPath);
  const made = await Promise.all(Array.from({ length: 8 }, (_, at) => Grammar.regex(own, `a{${at + 1}}`)));
  assert.deepEqual(
    made.map((grammar) => masked(new Matcher(grammar))[0]),
    Array(8).fill(matching(/^a$/)[0]),
  );
});

test('the grammar of a chat is for one turn', grammars, async () => {
  const chat = new Chat(chatModel);
  const plain = await chat.send('Hello!');
  const grammar = await Grammar.jsonSchema(chatModel, sure);
  for (let round = 0; round < 2; round++)
    assert.deepEqual(Object.keys(JSON.parse(await chat.send('Hello!', { grammar }))), ['sure']);
  chat.messages = [];
  assert.equal(await chat.send('Hello!'), plain);
  let asked = 0;
  const hook = () => void asked++;
  chat.session.setLogitsHook({ apply: hook });
  chat.messages = [];
  assert.equal(await chat.send('Hello!'), plain);
  assert.ok(asked > 0);

  const always = new Chat(chatModel, { grammar });
  for (let round = 0; round < 2; round++)
    assert.deepEqual(Object.keys(JSON.parse(await always.send('Hello!'))), ['sure']);
});

test('the grammar of a chat begins after the reasoning', grammars, async () => {
  const template = `${chatModel.chatTemplate()}{% if add_generation_prompt %}<think>\n{% endif %}`;
  const chat = new Chat(chatModel, { template, grammar: Grammar.jsonSchemaSync(chatModel, sure) });
  let content = '';
  let reasoning = '';
  for await (const part of chat.stream('Hi', { maxReasoningTokens: 6 })) {
    if (part.kind === 'content') content += part.text;
    else reasoning += part.text;
  }
  assert.deepEqual([Object.keys(JSON.parse(content)), reasoning !== ''], [['sure'], true]);
  assert.ok(chat.result.reasoningTokens > 6 && !chat.result.inReasoning);
  assert.deepEqual(Object.keys(JSON.parse(await chat.send('Hi', { reasoning: false }))), ['sure']);
});

test('requests of an engine share a grammar', grammars, async () => {
  const grammar = threeLetters();
  const cache = new KvCache(model, { budgetBlocks: 32 });
  const engine = new Engine(cache);
  const texts = await Promise.all(
    Array.from({ length: 6 }, async (_, at) => {
      const { prompt, new_tokens: maxTokens } = cases.greedy[at % 2];
      const session = new Session(cache, { maxTokens: 32, maxDraft: (at % 2) * 4 });
      session.append(prompt);
      if (at % 3 !== 0) session.setGrammar(grammar);
      const { text } = await engine.generate(session, { maxTokens });
      session.close();
      return text;
    }),
  );
  texts.forEach((text, at) => {
    if (at % 3 !== 0) assert.match(text, /^[a-c]{3}$/);
    else assert.equal(text, cases.greedy[at % 2].text);
  });
  engine.close();
});

test('a session in use takes no grammar', grammars, async () => {
  const session = prompted('Lily: ');
  session.setGrammar(threeLetters());
  const running = session.generate({ maxTokens: 10 });
  await failsWith('QINFER_E_STATE', () => session.setGrammar(null));
  const matcher = new Matcher(threeLetters());
  await failsWith('QINFER_E_STATE', () => session.setGrammar(matcher));
  assert.match((await running).text, /^[a-c]{3}$/);
  session.setGrammar(matcher); // it was not taken
});

test('worker threads have grammars each for themselves, and end in the midst of calls', grammars, async () => {
  const grammar = `const { Grammar, Matcher } = await import('qinfer');`;
  const draw = `${grammar}
    session.setBias({}); // which has banned the end tokens
    session.setGrammar(await Grammar.regex(model, '[a-c]{3}'));
    parentPort.postMessage((await session.generate({ maxTokens: 10 })).text);`;
  const texts = await Promise.all(
    [worker(draw), worker(draw), worker(draw)].map(async (each) => {
      const [[text], [status]] = await Promise.all([once(each, 'message'), once(each, 'exit')]);
      assert.equal(status, 0);
      return text;
    }),
  );
  for (const text of texts) assert.match(text, /^[a-c]{3}$/);
  const long = `'(' + Array.from({ length: 2000 }, (_, at) => 'word' + at).join('|') + '){1,50}'`;
  for (const code of [
    `Grammar.regex(model, ${long}); parentPort.postMessage('running');`,
    `parentPort.postMessage('running'); Grammar.regexSync(model, ${long});`,
    `session.setGrammar(Grammar.regexSync(model, '[a-z ]{1000}')); session.generate(); parentPort.postMessage('running');`,
  ]) {
    const each = worker(grammar + code);
    await once(each, 'message');
    await sleep(2);
    await each.terminate();
    const ended = await inProcess(
      `${prelude}${grammar} const parentPort = { postMessage() {} }; ${code} process.exit(3);`,
    );
    assert.deepEqual(ended.slice(0, 2), [3, null], ended[3]);
  }
});

test('a library that is not there is named, and all else goes on', async () => {
  for (const path of ['/no/such/folder/library.so', join(root, 'LICENSE')]) {
    const code = `${prelude}
      const { Grammar } = await import('qinfer');
      process.env.QINFER_GRAMMAR_LIBRARY = ${JSON.stringify(path)};
      for (let round = 0; round < 2; round++)
        await Grammar.regex(model, 'a').catch(({ code, message }) => console.log(code, message));
      console.log((await session.generate({ maxTokens: 16 })).text);`;
    const [status, signal, output, errors] = await inProcess(code);
    assert.deepEqual([status, signal], [0, null], errors);
    const lines = output.trimEnd().split('\n');
    assert.equal(lines.length, 3, output);
    for (const line of lines.slice(0, 2)) {
      for (const word of [
        'QINFER_E_NOT_FOUND',
        'libqinfer_grammar.so.0.2',
        'QINFER_GRAMMAR_LIBRARY',
        path,
        'install it',
      ])
        assert.ok(line.includes(word), line);
    }
    assert.equal(lines[2], cases.greedy[0].text);
  }
});
