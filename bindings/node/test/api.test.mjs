// Everything else of the package: what a model tells, tokens, templates, samplers, logits, embeddings, plans, arguments.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  buildInfo,
  Cancel,
  Chat,
  cpuInfo,
  Detokenizer,
  KvCache,
  Model,
  plan,
  planSync,
  Reply,
  Runtime,
  Session,
  version,
} from 'qinfer';
import { cases, chatModel, failsWith, model, modelPath, prompted, temporaryFolder } from './support.mjs';

test('the library tells its version, its build and the CPU', () => {
  assert.match(version(), /^\d+\.\d+\.\d+$/);
  assert.ok(buildInfo().length > 20);
  const cpu = cpuInfo();
  assert.ok(cpu.nLogicalCores >= 1 && cpu.features.length > 0 && cpu.target.length > 0);
});

test('a runtime has the threads and the kernel set that were asked for', async () => {
  const runtime = new Runtime({ threads: 2, cpuTarget: 'reference', spinUs: 10 });
  assert.deepEqual(runtime.info, { nThreads: 2, target: 'reference' });
  const session = new Session(await Model.load(modelPath, { runtime }));
  session.append('Once upon a time');
  assert.equal((await session.generate({ maxTokens: 16 })).text, cases.greedy[0].text);
  assert.ok(runtime.metrics.decodeTokens >= 15 && runtime.metrics.evals >= 16);
  assert.match(new Runtime({ threads: 1, exact: true }).info.target, /\w/);
});

test('a model tells what it is', () => {
  const { info, memory, metadata, endTokens } = model;
  assert.deepEqual([info.nVocab, info.encoder, info.tokenizer], [1024, false, true]);
  assert.ok(info.nParams > 0 && info.nLayers > 0 && info.contextTokens > 0 && info.kernelSet.length > 0);
  assert.ok(memory.total > 0 && memory.scratch > 0);
  assert.equal(typeof Object.values(metadata)[0], 'string');
  assert.ok(endTokens.length > 0 && endTokens.every((token) => model.token(token).end));
});

test('a model without weights has tokens and no sessions', async () => {
  const bare = await Model.load(pathToFileURL(modelPath), { weights: false });
  assert.deepEqual(bare.tokenize('Once upon a time'), model.tokenize('Once upon a time'));
  await assert.rejects(async () => new Session(bare), { name: 'QinferError' });
});

test('tokens have texts, and are found by them', async () => {
  const [token] = model.tokenize(' a', { special: false });
  const found = model.token(token);
  assert.deepEqual([Buffer.from(found.bytes).toString(), found.control, found.end], [' a', false, false]);
  const [end] = chatModel.endTokens;
  const text = Buffer.from(chatModel.token(end).bytes).toString();
  assert.equal(
    chatModel.findToken('<|im_end|>'),
    chatModel.tokenize('<|im_end|>', { special: false, parseSpecial: true })[0],
  );
  assert.equal(typeof text, 'string');
  assert.notDeepEqual(chatModel.tokenize('<|im_end|>', { special: false }).length, 1);
  await failsWith('QINFER_E_NOT_FOUND', () => model.findToken('no such token'));
});

test('a detokenizer holds back characters that are not whole', () => {
  const detokenizer = new Detokenizer(model);
  const tokens = model.tokenize('é日本', { special: false });
  const pieces = tokens.map((token) => detokenizer.push(token));
  assert.equal(pieces.join('') + detokenizer.finish(), 'é日本');
  assert.ok(pieces.includes(''));
  for (const token of tokens.slice(0, -1)) detokenizer.push(token);
  assert.equal(detokenizer.finish(), '\uFFFD');
});

test('chat templates make prompts of conversations', async () => {
  const messages = [{ role: 'user', content: 'Hello! <|im_end|>' }];
  const text = chatModel.renderChat(messages);
  assert.ok(text.includes('Hello! <|im_end|>') && text.length > 20);
  assert.ok(text.startsWith(chatModel.renderChat(messages, { generationPrompt: false })));
  const tokens = chatModel.tokenizeChat(messages);
  const end = chatModel.findToken('<|im_end|>');
  const count = (list) => list.filter((token) => token === end).length;
  assert.equal(count(tokens), count(chatModel.tokenize(text, { special: false, parseSpecial: true })) - 1);
  const options = { template: '{{ greeting }} {{ messages[0].content }}', variables: { greeting: 'Hi:' } };
  assert.equal(chatModel.renderChat(messages, options), 'Hi: Hello! <|im_end|>');
  assert.equal(chatModel.renderChat(messages, { template: "{{ strftime_now('%Y') }}", now: '2026-11-22' }), '2026');
  assert.ok(chatModel.chatTemplate().includes('{%'));
  await failsWith('QINFER_E_NOT_FOUND', () => chatModel.chatTemplate('no such template'));
  await failsWith('QINFER_E_FORMAT', () => chatModel.renderChat(messages, { template: '{% if' }));
});

test('replies are taken apart, and calls of tools are told', async () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const tools = [
    { type: 'function', function: { name: 'get_weather', description: 'Get the weather in a city', parameters } },
  ];
  const chat = new Chat(chatModel, { tools });
  const calls = [];
  for await (const part of chat.stream('What is the weather in Paris?')) if (part.kind === 'call') calls.push(part);
  assert.deepEqual(
    calls.map(({ name, text, call }) => [name, text, call]),
    [['get_weather', '{"city": "Paris"}', 0]],
  );
  assert.match(calls[0].id, /^[0-9A-Za-z]{9}$/);
  assert.deepEqual(chat.messages.at(-1).tool_calls[0].function.arguments, { city: 'Paris' });
  const reply = new Reply(chatModel, chat.messages.slice(0, 1), { tools });
  const parts = chatModel.tokenize('Hi there', { special: false }).flatMap((token) => reply.push(token));
  parts.push(...reply.finish());
  assert.equal(parts.map(({ text }) => text).join(''), 'Hi there');
  assert.deepEqual(reply.message, { role: 'assistant', content: 'Hi there' });
  await failsWith('QINFER_E_STATE', () => reply.push(1));
});

test('turns of a chat evaluate only what is new', async () => {
  const chat = new Chat(chatModel);
  await chat.send('Hello!');
  const before = chat.session.metrics;
  const length = chat.session.length;
  assert.equal(await chat.send('What is the capital of France?'), 'The capital of France is Paris.');
  const after = chat.session.metrics;
  const evaluated = after.prefillTokens + after.decodeTokens - before.prefillTokens - before.decodeTokens;
  assert.equal(evaluated, chat.session.length - length);
  assert.equal(chat.result.finish, 'end');
  const short = new Chat(chatModel, { maxTokens: 2 });
  await short.send('Hello!');
  assert.deepEqual([short.result.finish, short.result.newTokens], ['length', 2]);
});

test('a conversation that fills the context has no room for a reply', async () => {
  const chat = new Chat(chatModel);
  const most = chatModel.info.contextTokens;
  let content = 'Hello';
  const room = () => chatModel.tokenizeChat([{ role: 'user', content }]).length;
  while (room() < most) content += ' a';
  assert.equal(room(), most);
  const failure = await failsWith('QINFER_E_CONTEXT_FULL', () => chat.send(content));
  assert.match(failure.message, /no room for a reply/);
  assert.deepEqual(chat.messages, []);
  assert.notEqual(await chat.send('Hello!'), '');
});

test('a turn that the model ends at once is an empty reply, and leaves no message', async () => {
  const before = [
    { role: 'user', content: 'Hello!' },
    { role: 'assistant', content: 'Hi!' },
  ];
  for (const messages of [[], before]) {
    const chat = new Chat(chatModel, { messages });
    chat.session = new Session(chatModel);
    chat.session.setBias({ [chatModel.endTokens[0]]: 1e9 });
    assert.equal(await chat.send('What is the capital of France?'), '');
    assert.deepEqual([chat.messages, chat.result.finish], [messages, 'end']);
  }
});

test('a turn that fails takes its message back, one that is left keeps the reply so far', async () => {
  const chat = new Chat(chatModel);
  await assert.rejects(chat.send('Hello! '.repeat(2000)));
  const cancel = new Cancel();
  cancel.request();
  await assert.rejects(chat.send('Hello!', { cancel }));
  await assert.rejects(chat.send('Hello!', { signal: AbortSignal.abort() }));
  assert.deepEqual(chat.messages, []);
  for await (const part of chat.stream('What is the capital of France?')) {
    assert.ok(part.text);
    break;
  }
  assert.deepEqual(
    chat.messages.map(({ role }) => role),
    ['user', 'assistant'],
  );
  assert.ok(chat.messages[1].content && 'The capital of France is Paris.'.startsWith(chat.messages[1].content));
  assert.equal(await chat.send('What is the capital of France?'), 'The capital of France is Paris.');
  assert.equal(chat.messages.length, 4);
});

test('tokens of a session are appended, replaced, cut off and forked', () => {
  const session = prompted();
  assert.deepEqual([session.tokens, session.length, session.pending], [model.tokenize('Once upon a time'), 4, 4]);
  session.evaluateSync();
  assert.equal(session.pending, 0);
  session.append(Int32Array.of(11, 363));
  const fork = session.fork();
  assert.equal(session.setTokens([...session.tokens.slice(0, 5), 258]), 5);
  assert.deepEqual([session.tokens.at(-1), fork.tokens.at(-1)], [258, 363]);
  session.truncate(2);
  assert.deepEqual([session.length, session.pending, session.info.nTokens], [2, 1, 2]);
  assert.ok(fork.memory.kvShared + fork.memory.kvPrivate > 0);
});

test('samplers draw alike with one seed, and otherwise with another', () => {
  const draw = (options) => {
    const session = prompted();
    session.setSampler(options);
    return session.generateSync({ maxTokens: 30 }).text;
  };
  const hot = { temperature: 2, topK: 50, topP: 0.99, minP: 0.001 };
  assert.equal(draw({ ...hot, seed: 1 }), draw({ ...hot, seed: 1n }));
  assert.notEqual(draw({ ...hot, seed: 1 }), draw({ ...hot, seed: 2n ** 63n }));
  assert.equal(draw({ temperature: 0 }), draw(undefined));
  assert.notEqual(draw({ repeatPenalty: 5, penaltyTokens: 64 }), draw());
  assert.equal(draw({ ...hot, seed: 1, steps: 'edtskypmx' }), draw({ ...hot, seed: 1 }));
  assert.equal(draw({ ...hot, topK: 1, typicalP: 1, topNSigma: 100 }), draw());
  assert.notEqual(draw({ ...hot, topK: 1, steps: 't', seed: 1 }), draw());
  assert.notEqual(draw({ ...hot, mirostat: 2, mirostatTau: 9, mirostatEta: 0.5 }), draw());
  assert.notEqual(draw({ temperature: 0, dryMultiplier: 50, dryAllowedLength: 1, dryBase: 2 }), draw());
  assert.throws(() => draw({ steps: 'tz' }), { message: /steps has the byte 0x7a at index 1/ });
  assert.throws(() => draw({ steps: 't'.repeat(30) }), { message: /steps has no NUL/ });
  assert.throws(() => draw({ xtcProbability: 2 }), { message: /xtc_probability is 2/ });
  assert.throws(() => draw({ mirostat: 1 }), { message: /mirostat is 1/ });
  const dry = prompted();
  dry.setDryBreakers([':', 'a longer one']);
  dry.setDryBreakers([]);
  assert.throws(() => dry.setDryBreakers(['']), { message: /index 0 has 0 bytes/ });
  const biased = prompted();
  biased.setBias({ [cases.greedy[0].ids[0]]: -Infinity });
  assert.notEqual(biased.generateSync({ maxTokens: 1 }).text, ',');
  biased.truncate(4);
  biased.setBias({});
  assert.equal(biased.generateSync({ maxTokens: 1 }).text, ',');
});

test('logits and log probabilities are those of the softmax', async () => {
  const session = prompted('Once upon a time', { maxLogits: 2 });
  await session.evaluate({ keepLogits: 2 });
  const logits = session.logits();
  const most = Math.max(...logits);
  assert.equal(logits.indexOf(most), cases.greedy[0].ids[0]);
  assert.notDeepEqual(session.logits(1), logits);
  const sum = logits.reduce((total, value) => total + Math.exp(value - most), 0);
  const best = session.topLogprobs(3);
  for (const { token, logprob } of best) assert.ok(Math.abs(logits[token] - most - Math.log(sum) - logprob) < 1e-9);
  assert.deepEqual(
    session.logprobs(best.map(({ token }) => token)),
    best.map(({ logprob }) => logprob),
  );
  const room = new Float32Array(2000);
  assert.equal(session.copyLogits(room, 1), 1024);
  assert.deepEqual(room.slice(0, 1024), session.logits(1));
  await failsWith('QINFER_E_STATE', () => session.logits(5));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => session.topLogprobs(2 ** 31));
});

test('embeddings have length 1, and what is alike is closer', () => {
  const embed = (text) => {
    const session = prompted(text, { embeddings: true });
    session.evaluateSync();
    return session.embedding();
  };
  const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
  const [cat, tree, crash] = ['The cat sat by the house.', 'The cat sat by the tree.', 'Crash!'].map(embed);
  assert.ok(Math.abs(dot(cat, cat) - 1) < 1e-5);
  assert.ok(dot(cat, tree) > dot(cat, crash));
  const session = prompted('Crash!', { embeddings: true });
  session.evaluateSync();
  assert.notDeepEqual(session.embedding('mean'), session.embedding('last'));
  assert.equal(session.embedding('mean', { dims: 8 }).length, 8);
  const raw = session.embedding('mean', { scaled: false });
  assert.ok(Math.abs(dot(raw, raw) - 1) > 1e-5);
  assert.deepEqual(model.prompts, {});
  assert.equal(model.defaultPrompt, undefined);
});

test('a text is cut only where that is asked for', async () => {
  const { tokens, cut } = model.embeddingTokens('Once upon a time', { truncate: true, maxTokens: 3 });
  assert.equal(tokens.length, 3);
  assert.equal(cut, model.tokenize('Once upon a time').length - 3);
  await failsWith('QINFER_E_CONTEXT_FULL', () => model.embeddingTokens('Once upon a time', { maxTokens: 3 }));
  assert.deepEqual(model.embeddingTokens('Crash!', { promptText: 'The ' }).tokens, model.tokenize('The Crash!'));
});

test('a pair of texts has a score', async () => {
  const how = { templateText: '{query} said: {document}', yes: 'a', no: 'b', raw: true };
  const session = new Session(model);
  assert.equal(session.setPair('Tom', 'a cat', how), 0);
  session.evaluateSync();
  const [yes, no] = ['a', 'b'].map((text) => session.logits()[model.findToken(text)]);
  assert.ok(Math.abs(session.score(how) - (yes - no)) < 1e-5);
  assert.ok(Math.abs(session.score({ ...how, raw: false }) - 1 / (1 + Math.exp(no - yes))) < 1e-5);
  await failsWith('QINFER_E_UNSUPPORTED', () => session.setPair('Tom', 'a cat'));
});

test('plans are what is taken', async () => {
  const planned = await plan(modelPath, {
    load: { maxBatchTokens: 64 },
    session: { maxTokens: 100 },
    cache: { budgetBlocks: 4 },
  });
  const { memory } = Model.loadSync(modelPath, { maxBatchTokens: 64 });
  for (const name of ['weightsMapped', 'weightsPrivate', 'scratch']) assert.equal(planned[name], memory[name], name);
  assert.equal(planned.kvCacheBytes, 4 * planned.kvPerBlock);
  assert.deepEqual(planSync(modelPath).kvCacheBytes, 0);
  await failsWith('QINFER_E_NOT_FOUND', () => plan('no/such/model'));
});

test('caches have what they were made with', async () => {
  const cache = new KvCache(model, { kvType: 'f32', blockTokens: 64, budgetBlocks: 3n, commit: true });
  assert.deepEqual([cache.stats.blockTokens, cache.stats.blocksTotal, cache.stats.blocksUsed], [64, 3, 0]);
  assert.match(
    (await failsWith('QINFER_E_INVALID_ARGUMENT', () => new KvCache(model, { kvType: 'f8' }))).message,
    /f8/,
  );
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => new KvCache(model, { blockTokens: 33 }));
});

test('messages are whole, however long', async () => {
  const text = 'x'.repeat(2000);
  assert.ok((await failsWith('QINFER_E_IO', () => Model.load(`/${text}`))).message.includes(text));
});

test('a NUL in a path or a name is an error, and in a text a character', async (t) => {
  const folder = temporaryFolder(t);
  const session = prompted();
  for (const use of [
    () => Model.load('a\0b'),
    () => Model.loadSync(`${modelPath}\0`),
    () => plan('a\0b'),
    () => session.save(join(folder, 'a\0b')),
    () => Session.load(session.cache, 'a\0b'),
    () => new Runtime({ cpuTarget: 'reference\0' }),
    () => Model.load(modelPath, { packedPath: 'a\0b' }),
    () => chatModel.chatTemplate('default\0'),
    () => chatModel.renderChat([], { template: 'a\0b' }),
  ]) {
    assert.match((await failsWith('QINFER_E_INVALID_ARGUMENT', use)).message, /holds a NUL character/);
  }
  assert.equal(model.detokenize(model.tokenize('a\0b', { special: false })), 'a\0b');
  assert.equal((await session.generate({ maxTokens: 3, stop: ['\0'] })).newTokens, 3);
});

test('arguments of the wrong type are type errors, and those that cannot be are refused by the library', async () => {
  const session = prompted();
  for (const use of [
    () => session.append([1.5]),
    () => session.append([2 ** 40]),
    () => session.append(['a']),
    () => session.append(7),
    () => session.truncate(-1),
    () => session.generate({ maxTokens: '5' }),
    () => session.generate({ maxTokens: -1 }),
    () => session.generate({ stop: 7 }),
    () => session.setSampler({ temperature: 'hot' }),
    () => session.copyLogits([0]),
    () => new Session({}),
    () => new KvCache(undefined),
    () => Model.load(7),
    () => new Model(),
    () => model.token('a'),
    () => session.generate({ signal: 'now' }),
    () => session.embedding('middle'),
  ]) {
    await assert.rejects(async () => use(), TypeError, String(use));
  }
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => session.generate({ stop: [''] }));
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => session.setSampler({ temperature: NaN }));
  assert.equal((await session.generate({ maxTokens: 16 })).text, cases.greedy[0].text);
});
