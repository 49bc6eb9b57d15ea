// Stores: conversations that are kept in a folder go on in other caches and processes, with the same text.
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Cancel, Engine, KvCache, KvStore, Session } from 'qinfer';
import { cases, failsWith, inProcess, model, prelude, temporaryFolder, worker } from './support.mjs';

const plenty = 2 ** 30;
const block = 32;
const story = model.tokenize(cases.prefix.text.repeat(cases.prefix.times));
assert.ok(story.length > 2 * block);

/** How many of n tokens fill blocks. */
const full = (n) => n - (n % block);
const cacheOf = () => new KvCache(model, { prefix: true, budgetBlocks: 32 });

/** A session that has gone on after the tokens, and its new text. */
function told(cache, tokens = story) {
  const session = new Session(cache);
  session.append(tokens);
  return { session, text: session.generateSync({ maxTokens: 12 }).text };
}

/** A store that is closed after the test. */
function opened(t, cache, folder) {
  const store = new KvStore(cache, folder, plenty);
  t.after(() => store.close());
  return store;
}

test('a conversation goes on in another cache', async (t) => {
  const folder = join(temporaryFolder(t), 'kept');
  const first = cacheOf();
  const { session } = told(first);
  const store = new KvStore(first, pathToFileURL(folder), plenty);
  assert.deepEqual([store.cache, store.model], [first, model]);
  const { tokens } = session;
  const kept = await store.keep(session);
  assert.equal(kept, full(tokens.length - 1)); // the last one is pending
  assert.equal(store.keepSync(session), kept); // nothing new
  const { bytes, ...stats } = store.stats;
  const nFiles = kept / block;
  assert.deepEqual(stats, { nFiles, written: nFiles, read: 0, removed: 0, damaged: 0 });
  assert.ok(bytes > 0);
  const wanted = session.generateSync({ maxTokens: 12 }).text;
  store.close();

  const cache = cacheOf();
  const second = new KvStore(cache, folder, BigInt(plenty));
  assert.equal(await second.fetch(tokens), kept);
  assert.equal(second.fetchSync(Int32Array.from(tokens)), kept); // the cache has them
  assert.deepEqual(second.stats, { nFiles, bytes, written: 0, read: nFiles, removed: 0, damaged: 0 });
  const again = told(cache, tokens);
  assert.equal(again.text, wanted);
  assert.equal(again.session.metrics.cachedTokens, kept);
  for (const few of [[], [1], new Set([1, 2]), Array(5000).fill(1), Array(100).fill(-1)])
    assert.equal(await second.fetch(few), 0);
  second.close();
});

test('another process and a worker find it, and may end in the midst of a call', async (t) => {
  const folder = temporaryFolder(t);
  const code = `
    const { KvCache, KvStore } = await import('qinfer');
    const cache = new KvCache(model, { prefix: true, budgetBlocks: 32 });
    const own = new Session(cache);
    own.append(${JSON.stringify(story)});
    own.evaluateSync();
    const store = new KvStore(cache, ${JSON.stringify(folder)}, ${plenty});
    const kept = await store.keep(own);
  `;
  const done = await inProcess(`${prelude}${code}console.log(kept);`);
  assert.deepEqual(done, [0, null, `${full(story.length)}\n`, '']);
  const first = new KvStore(cacheOf(), folder, plenty);
  assert.equal(first.fetchSync([...story, 1]), full(story.length));
  first.close();
  const endless = `
    let turn = 0;
    const again = () => store.keep(own, { tenant: String(turn++) }).then(() => store.fetch(own.tokens)).then(again);
    again();
  `;
  assert.deepEqual((await inProcess(`${prelude}${code}${endless}setTimeout(() => process.exit(7), 9);`))[0], 7);
  const thread = worker(`${code}${endless}parentPort.postMessage('running');`);
  await new Promise((resolve) => thread.once('message', resolve));
  await sleep(5);
  await thread.terminate();
  const store = opened(t, cacheOf(), folder); // which nobody has any more
  assert.equal(await store.fetch(story), full(story.length));
  assert.equal(store.stats.damaged, 0);
});

test('an engine goes on with what is fetched', async (t) => {
  const folder = temporaryFolder(t);
  const { session } = told(cacheOf());
  const { tokens } = session;
  const first = new KvStore(session.cache, folder, plenty);
  const kept = await first.keep(session);
  first.close();
  const cache = cacheOf();
  const store = opened(t, cache, folder);
  await store.fetch(tokens);
  const own = new Session(cache, { maxTokens: 250 });
  own.append(tokens);
  const engine = new Engine(cache);
  t.after(() => engine.close());
  const running = engine.generate(own, { maxTokens: 40 });
  await failsWith('QINFER_E_STATE', () => store.keep(own)); // the engine's
  assert.equal((await running).cachedTokens, kept);
  assert.ok((await store.keep(own)) > kept);
});

test('tenants find their own', async (t) => {
  const folder = temporaryFolder(t);
  const { session } = told(cacheOf());
  const first = new KvStore(session.cache, folder, plenty);
  await first.keep(session, { tenant: 'Zoë' });
  first.close();
  const found = { Zoe: 0, 'Zoë\n': 0, '': 0, Zoë: full(story.length) };
  for (const [tenant, n] of Object.entries(found)) {
    const store = new KvStore(cacheOf(), folder, plenty);
    assert.equal(await store.fetch([...story, 1], { tenant }), n, tenant);
    store.close();
  }
});

test('what was used longest ago makes room, and damage is seen', async (t) => {
  const folder = temporaryFolder(t);
  const { session } = told(cacheOf());
  let store = new KvStore(session.cache, folder, plenty);
  await store.keep(session);
  const { bytes, nFiles } = store.stats;
  store.close();
  store = new KvStore(session.cache, folder, bytes / nFiles);
  assert.deepEqual([store.stats.nFiles, store.stats.removed], [1, nFiles - 1]);
  assert.equal(await store.keep(session), block);
  store.close();
  const paths = readdirSync(folder).map((name) => join(folder, name));
  for (const path of paths) if (statSync(path).size === bytes / nFiles) writeFileSync(path, 'damaged');
  store = new KvStore(cacheOf(), folder, plenty);
  assert.equal(await store.fetch(story), 0);
  assert.equal(store.stats.damaged, 1);
  store.close();
});

test('folders and caches that cannot be are errors', async (t) => {
  const folder = temporaryFolder(t);
  const cache = cacheOf();
  const open = (path, maxBytes = plenty, its = cache) => new KvStore(its, path, maxBytes);
  const store = open(folder);
  assert.match((await failsWith('QINFER_E_STATE', () => open(folder))).message, /in use/);
  store.close();
  open(folder).close();
  const plain = new KvCache(model);
  const refused = await failsWith('QINFER_E_UNSUPPORTED', () => open(folder, plenty, plain));
  assert.match(refused.message, /QINFER_CACHE_PREFIX/);
  assert.match((await failsWith('QINFER_E_NOT_FOUND', () => open(join(folder, 'a/b')))).message, /a\/b/);
  assert.match((await failsWith('QINFER_E_IO', () => open('/dev/null'))).message, /\/dev\/null/);
  assert.match((await failsWith('QINFER_E_INVALID_ARGUMENT', () => open(folder, 0))).message, /max_bytes/);
  await failsWith('QINFER_E_INVALID_ARGUMENT', () => open('a\0b'));
  writeFileSync(join(folder, 'secret'), 'short');
  assert.match((await failsWith('QINFER_E_FORMAT', () => open(folder))).message, /secret/);
});

test('sessions that a store does not keep are errors', async (t) => {
  const folder = temporaryFolder(t);
  const cache = cacheOf();
  const store = opened(t, cache, join(folder, 'kept'));
  const { session } = told(cache);
  const foreign = told(cacheOf()).session;
  assert.match((await failsWith('QINFER_E_INVALID_ARGUMENT', () => store.keep(foreign))).message, /another cache/);
  await session.save(join(folder, 'snapshot'));
  const loaded = await Session.load(cache, join(folder, 'snapshot'));
  assert.match((await failsWith('QINFER_E_UNSUPPORTED', () => store.keep(loaded))).message, /snapshot/);
  for (const call of ['keep', 'keepSync'])
    await failsWith('QINFER_E_INVALID_ARGUMENT', () => store[call](session, { tenant: 'a\0b' }));
  for (const call of ['fetch', 'fetchSync'])
    await failsWith('QINFER_E_INVALID_ARGUMENT', () => store[call](story, { tenant: 'a\0b' }));
  assert.equal(store.stats.nFiles, 0);
  assert.equal(await store.keep(new Session(cache)), 0);
});

test('signals and cancels end keeping and fetching', async (t) => {
  const folder = temporaryFolder(t);
  const { session } = told(cacheOf());
  const first = new KvStore(session.cache, folder, plenty);
  const cancel = new Cancel();
  cancel.request();
  const reason = new Error('enough');
  const signal = AbortSignal.abort(reason);
  await failsWith('QINFER_E_CANCELLED', () => first.keep(session, { cancel }));
  await failsWith('QINFER_E_CANCELLED', () => first.keepSync(session, { cancel }));
  await assert.rejects(first.keep(session, { signal }), reason);
  assert.equal(first.stats.nFiles, 0);
  cancel.reset();
  const kept = await first.keep(session, { cancel, signal: new AbortController().signal });
  assert.ok(kept > 0);
  first.close();
  const store = opened(t, cacheOf(), folder);
  cancel.request();
  await failsWith('QINFER_E_CANCELLED', () => store.fetch(session.tokens, { cancel }));
  await failsWith('QINFER_E_CANCELLED', () => store.fetchSync(session.tokens, { cancel }));
  await assert.rejects(store.fetch(session.tokens, { signal }), reason);
  assert.throws(() => store.fetchSync(session.tokens, { signal }), reason);
  cancel.reset();
  assert.equal(await store.fetch(session.tokens, { cancel }), kept);
});

test('stores, caches and sessions may be closed during calls', async (t) => {
  const folder = temporaryFolder(t);
  const cache = cacheOf();
  const { session } = told(cache);
  const { tokens } = session;
  const store = new KvStore(cache, folder, plenty);
  const keeping = store.keep(session);
  await failsWith('QINFER_E_STATE', () => session.length);
  await failsWith('QINFER_E_STATE', () => store.keep(session));
  const fetching = Array.from({ length: 8 }, () => store.fetch(tokens));
  store.close();
  cache.close();
  await failsWith('QINFER_E_STATE', () => store.keep(session));
  assert.equal(await keeping, full(tokens.length - 1));
  for (const found of await Promise.all(fetching)) assert.equal(found % block, 0);
  for (const use of [() => store.stats, () => store.fetch(tokens), () => store.fetchSync(tokens)])
    assert.match((await failsWith('QINFER_E_STATE', use)).message, /^this KvStore is closed$/);
  const other = cacheOf();
  const again = opened(t, other, folder); // which nobody has any more
  for (let turn = 0; turn < 20; turn++) {
    const own = told(other).session;
    const ended = again.keep(own, { tenant: `${turn}` });
    own.close();
    // It was over before, or was ended.
    await ended.catch((error) => assert.equal(error.code, 'QINFER_E_CANCELLED'));
  }
  other.close();
  assert.ok(again.fetchSync(tokens) > 0); // it keeps its cache
});

test('a hook cannot keep its session, and may look for it', async (t) => {
  const cache = cacheOf();
  const store = opened(t, cache, temporaryFolder(t));
  const session = new Session(cache);
  session.append(story);
  const met = [];
  session.setLogitsHook(() => {
    assert.throws(() => store.keepSync(session), { code: 'QINFER_E_STATE' });
    met.push(store.fetchSync(story));
  });
  await session.generate({ maxTokens: 2 });
  session.generateSync({ maxTokens: 2 });
  assert.equal(met.length, 4);
  session.setLogitsHook(null);
  assert.ok((await store.keep(session)) >= full(story.length));
});

test('a store that nothing refers to lets go of its folder', async (t) => {
  const folder = temporaryFolder(t);
  const cache = cacheOf();
  (() => void new KvStore(cache, folder, plenty).stats)();
  let isFree = false;
  for (let round = 0; round < 100 && !isFree; round++) {
    globalThis.gc();
    await sleep(5);
    try {
      new KvStore(cache, folder, plenty).close();
      isFree = true;
    } catch (error) {
      assert.equal(error.code, 'QINFER_E_STATE');
    }
  }
  assert.ok(isFree);
});
