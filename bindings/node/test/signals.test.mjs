// Signals end what takes long, soon, and the session can be used where the reason is caught.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Chat, evaluate, Model, plan, Runtime, Session } from 'qinfer';
import { cases, root } from './support.mjs';

const path = join(root, cases.chat_model);
const kMostMilliseconds = 500;

/** On which a prompt as long as the context takes seconds. */
const slowModel = Model.loadSync(path, { runtime: new Runtime({ threads: 1, cpuTarget: 'reference' }) });

function slow(options) {
  const session = new Session(slowModel, options);
  session.append(Array.from({ length: slowModel.info.contextTokens - 4 }, (_, at) => 5 + (at % 50)));
  return session;
}

/** Aborts a call after a moment; it must end soon, with the reason. */
async function endsSoon(call, name) {
  const reason = new Error('enough');
  const controller = new AbortController();
  let abortedAt;
  const timer = setTimeout(() => {
    abortedAt = performance.now();
    controller.abort(reason);
  }, 100);
  try {
    await call(controller.signal);
    assert.fail(`${name} was over before the signal`);
  } catch (error) {
    assert.equal(error, reason, error.stack);
    const milliseconds = performance.now() - abortedAt;
    assert.ok(milliseconds < kMostMilliseconds, `${name} went on for ${milliseconds} ms`);
  } finally {
    clearTimeout(timer);
  }
}

const calls = {
  'session.evaluate()': (session, signal) => session.evaluate({ signal }),
  'evaluate()': (session, signal) => evaluate([session], { signal }),
  'generate()': (session, signal) => session.generate({ signal }),
  'generate() with a callback': (session, signal) => session.generate({ signal, onText() {} }),
  'stream()': (session, signal) => session.stream({ signal }).next(),
  'streamTokens()': (session, signal) => session.streamTokens({ signal }).next(),
};

for (const [name, call] of Object.entries(calls)) {
  test(`a signal ends the prompt of ${name}, and the session goes on`, async () => {
    const session = slow();
    await endsSoon((signal) => call(session, signal), name);
    assert.ok(session.pending > 0);
    session.truncate(3);
    await session.evaluate();
    assert.equal((await session.generate({ maxTokens: 2 })).newTokens, 2);
    session.close();
  });
}

test('a signal ends what embeddings are computed from, and the session goes on', async () => {
  const session = slow({ embeddings: true });
  await endsSoon((signal) => session.evaluate({ signal }), 'evaluate()');
  session.truncate(3);
  await session.evaluate();
  assert.equal(session.embedding().length, slowModel.info.nEmbd);
  session.close();
});

test('a signal ends loading and plans', async () => {
  await endsSoon(async (signal) => {
    for (;;) (await Model.load(path, { signal })).close();
  }, 'Model.load()');
  await endsSoon(async (signal) => {
    for (;;) await plan(path, { signal });
  }, 'plan()');
  const reason = new Error('at once');
  const controller = new AbortController();
  const progress = () => controller.abort(reason);
  const isReason = (error) => error === reason;
  await assert.rejects(Model.load(path, { signal: controller.signal, progress, mmap: false }), isReason);
});

test('a signal ends the turn of a chat, which goes on', async () => {
  const chat = new Chat(slowModel);
  await endsSoon((signal) => chat.send('Hello! '.repeat(250), { signal }), 'send()');
  assert.deepEqual(chat.messages, []);
  assert.equal(await chat.send('What is the capital of France?'), 'The capital of France is Paris.');
});
