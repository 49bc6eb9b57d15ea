// What callbacks throw and answer, in every kind of callback.
import assert from 'node:assert/strict';
import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KvCache, Model, QinferError, Session } from 'qinfer';
import { cases, failsWith, MemoryStore, model, modelPath, prompted } from './support.mjs';

class Stop extends Error {}

/** Asserts that the very object that a callback throws comes out of the call. */
async function comesOut(work) {
  const thrown = new Stop('thrown by a callback');
  await assert.rejects(
    async () =>
      work(() => {
        throw thrown;
      }),
    (error) => error === thrown,
  );
}

for (const generate of ['generate', 'generateSync']) {
  test(`what onText and onToken throw comes out of ${generate}(), and the session goes on`, async () => {
    for (const name of ['onText', 'onToken']) {
      const session = prompted();
      await comesOut((throwing) => session[generate]({ maxTokens: 10, [name]: throwing }));
      assert.equal(session.length, 5, 'the token that the callback was told stays');
      assert.equal((await session.generate({ maxTokens: 15 })).newTokens, 15);
      assert.deepEqual(session.tokens.slice(4), cases.greedy[0].ids);
    }
  });

  test(`false from onText or onToken ends ${generate}() as of that token`, async () => {
    for (const name of ['onText', 'onToken']) {
      const session = prompted();
      let told = 0;
      const done = await session[generate]({ maxTokens: 50, [name]: () => ++told < 3 });
      assert.deepEqual([done.finish, done.newTokens, told, session.length], ['callback', 3, 3, 7]);
      assert.equal(done.text, model.detokenize(cases.greedy[0].ids.slice(0, 3)));
      assert.equal(done.text + session.generateSync({ maxTokens: 13 }).text, cases.greedy[0].text);
    }
  });

  test(`what a logits hook throws comes out of ${generate}()`, async () => {
    for (const name of ['apply', 'accept']) {
      const session = prompted();
      await comesOut((throwing) => {
        session.setLogitsHook({ apply() {}, [name]: throwing });
        return session[generate]({ maxTokens: 10 });
      });
      assert.equal(session.length, 4, 'the token in question is not added');
      session.setLogitsHook(null);
      assert.equal((await session[generate]({ maxTokens: 16 })).text, cases.greedy[0].text);
    }
  });
}

test('callbacks may throw what is no error', async () => {
  for (const thrown of [undefined, null, 7, 'text']) {
    const onText = () => {
      throw thrown;
    };
    for (const generate of ['generate', 'generateSync']) {
      const outcome = await Promise.resolve()
        .then(() => prompted()[generate]({ maxTokens: 5, onText }))
        .then(
          () => 'no throw',
          (error) => [error],
        );
      assert.deepEqual(outcome, [thrown]);
    }
    const session = prompted();
    session.setLogitsHook(onText);
    assert.deepEqual(await session.generate({ maxTokens: 5 }).catch((error) => [error]), [thrown]);
  }
});

test('a callback may be asynchronous', async () => {
  const told = [];
  const onText = async (text) => {
    await new Promise((resolve) => setImmediate(resolve));
    told.push(text);
    return told.length < 3;
  };
  assert.equal((await prompted().generate({ maxTokens: 50, onText })).finish, 'callback');
  assert.equal(told.length, 3);
  const onToken = async () => {
    throw new Stop();
  };
  await assert.rejects(prompted().generate({ maxTokens: 5, onToken, onText() {} }), Stop);
});

test('what a hook throws comes out of sample(), a stream and truncate()', async () => {
  const session = prompted();
  await session.evaluate();
  await comesOut((throwing) => {
    session.setLogitsHook(throwing);
    return session.sample();
  });
  await comesOut((throwing) => {
    session.setLogitsHook(throwing);
    return session.sampleSync();
  });
  await comesOut(async (throwing) => {
    session.setLogitsHook(throwing);
    for await (const _ of session.stream({ maxTokens: 3 }));
  });
  const taken = [];
  session.setLogitsHook({ apply() {}, rewind: (n) => void taken.push(n) });
  await session.generate({ maxTokens: 5 });
  session.truncate(session.length - 2);
  assert.deepEqual(taken, [2]);
  await comesOut((throwing) => {
    session.setLogitsHook({ apply() {}, rewind: throwing });
    session.generateSync({ maxTokens: 2 });
    session.truncate(4);
  });
  assert.equal(session.length, 9, 'a rewind that throws changes nothing');
});

test('false from a hook ends the call with QINFER_E_CANCELLED', async () => {
  for (const name of ['apply', 'accept']) {
    const session = prompted();
    session.setLogitsHook({ apply() {}, [name]: () => false });
    await failsWith('QINFER_E_CANCELLED', () => session.generate({ maxTokens: 3 }));
    await failsWith('QINFER_E_CANCELLED', () => session.generateSync({ maxTokens: 3 }));
  }
});

test('a hook may read its session, and nothing else may happen to it', async () => {
  for (const generate of ['generate', 'generateSync']) {
    const session = prompted();
    const lengths = [];
    const codes = new Set();
    session.setLogitsHook(() => {
      lengths.push(session.length);
      assert.equal(session.logits().length, model.info.nVocab);
      for (const use of [() => session.append([1]), () => session.sampleSync(), () => session.setLogitsHook(null)]) {
        try {
          use();
          codes.add('no error');
        } catch (error) {
          codes.add(error.code);
        }
      }
    });
    await session[generate]({ maxTokens: 3 });
    assert.deepEqual([lengths, [...codes]], [[4, 5, 6], ['QINFER_E_STATE']]);
  }
});

test('a hook that detaches its logits is an error, and the next call has new ones', () => {
  const session = prompted();
  session.setLogitsHook((logits) => void structuredClone(logits, { transfer: [logits.buffer] }));
  assert.throws(() => session.generateSync({ maxTokens: 1 }), TypeError);
  let length = 0;
  session.setLogitsHook((logits) => void (length = logits.length));
  session.generateSync({ maxTokens: 1 });
  assert.equal(length, model.info.nVocab);
});

test('progress is reported, and what it throws or says ends the loading', async () => {
  for (const load of ['load', 'loadSync']) {
    const reports = [];
    const loaded = await Model[load](modelPath, { progress: (...report) => void reports.push(report) });
    const [done, total] = reports.at(-1);
    assert.ok(done === total && total > 1e6);
    loaded.close();
    await comesOut((throwing) => Model[load](modelPath, { progress: throwing }));
    await failsWith('QINFER_E_CANCELLED', () => Model[load](modelPath, { progress: () => false }));
  }
});

test('a model is loaded through callbacks, from memory', () => {
  const store = new MemoryStore();
  for (const name of ['config.json', 'tokenizer.json', 'model.safetensors'])
    store.files.set(`archive/${name}`, new Uint8Array(readFileSync(join(modelPath, name))));
  const loaded = Model.loadSync('archive', { files: store.open });
  assert.equal(store.opened, 0);
  const session = new Session(loaded);
  session.append(cases.greedy[0].prompt);
  assert.equal(session.generateSync({ maxTokens: 16 }).text, cases.greedy[0].text);
});

test('a model is loaded through callbacks over node:fs, where ENOENT says that there is no file', () => {
  const open = (name) => {
    const file = openSync(join(modelPath, name.replace(/^here\/?/, '')), 'r');
    if (fstatSync(file).isDirectory()) return (closeSync(file), null);
    return {
      size: () => fstatSync(file).size,
      readAt(offset, n) {
        const bytes = new Uint8Array(n);
        assert.equal(readSync(file, bytes, 0, n, offset), n);
        return bytes;
      },
      close: () => closeSync(file),
    };
  };
  assert.equal(Model.loadSync('here', { files: open }).info.nVocab, model.info.nVocab);
});

test('what files callbacks throw comes out of the call, and every file is closed', async () => {
  const whole = new MemoryStore();
  const session = prompted();
  session.evaluateSync();
  session.saveSync('snapshot', { files: whole.open });
  const cache = new KvCache(model);
  const calls = {
    open: (files) => Session.loadSync(cache, 'snapshot', { files }),
    size: (files) => Session.loadSync(cache, 'snapshot', { files }),
    readAt: (files) => Session.loadSync(cache, 'snapshot', { files }),
    writeAt: (files) => session.saveSync('another', { files }),
    sync: (files) => session.saveSync('another', { files }),
    close: (files) => session.saveSync('another', { files }),
  };
  for (const [name, work] of Object.entries(calls)) {
    const store = new MemoryStore();
    store.files.set('snapshot', whole.files.get('snapshot'));
    await comesOut((throwing) =>
      work((...args) => {
        if (name === 'open') throwing();
        const file = store.open(...args);
        if (file !== null)
          file[name] = () => {
            if (name === 'close') store.opened--;
            throwing();
          };
        return file;
      }),
    );
    assert.equal(store.opened, 0, name);
  }
});

test('a status that a files callback returns is that of the call', async () => {
  const files = (status) => (name, writing) => {
    const file = new MemoryStore().open(name, true);
    file.size = () => status;
    return writing ? null : file;
  };
  const cache = new KvCache(model);
  const error = await failsWith('QINFER_E_NO_MEMORY', () => Session.loadSync(cache, 'here', { files: files(-5) }));
  assert.match(error.message, /here/);
  await failsWith('QINFER_E_NOT_FOUND', () => Session.loadSync(cache, 'here', { files: () => null }));
  await failsWith('QINFER_E_IO', () => Session.loadSync(cache, 'here', { files: files(-1) }));
});

test('files callbacks that are wrong are type errors', async () => {
  const cache = new KvCache(model);
  const short = () => ({ size: () => 100, readAt: () => new Uint8Array(3), close() {} });
  assert.throws(() => Session.loadSync(cache, 'here', { files: short }), /readAt gave 3 bytes/);
  assert.throws(() => Session.loadSync(cache, 'here', { files: () => 'a file' }), TypeError);
  assert.throws(() => Session.loadSync(cache, 'here', { files: () => ({}) }), TypeError);
  await assert.rejects(Session.load(cache, 'here', { files: short }), TypeError);
  await assert.rejects(Model.load('here', { files: short }), TypeError);
  await assert.rejects(prompted().save('here', { files: short }), TypeError);
  await assert.rejects(
    async () => prompted().generate({ maxTokens: 1, onText: 7 }),
    (error) => error instanceof TypeError && !(error instanceof QinferError),
  );
});

test('an asynchronous onToken is waited for before onText is called, and its answer counts', async () => {
  const order = [];
  const session = prompted();
  await session.generate({
    maxTokens: 2,
    onToken: async ({ token }) => {
      await Promise.resolve();
      order.push(token);
    },
    onText: (text) => order.push(text),
  });
  assert.deepEqual(
    order.map((one) => typeof one),
    ['number', 'string', 'number', 'string'],
  );
  const thenable = { then: (resolve) => resolve(false) };
  const done = await prompted().generate({ maxTokens: 5, onToken: () => thenable });
  assert.deepEqual([done.finish, done.newTokens], ['callback', 1]);
  // Both fail: the first comes out, and none is left without a handler, which would end the process.
  const first = new Stop('onToken');
  const failing = prompted().generate({
    onToken: () => Promise.reject(first),
    onText() {
      throw new Stop('onText');
    },
  });
  await assert.rejects(failing, (error) => error === first);
});

test('a session may be closed by the rewind of a stream that was left', async () => {
  for (let i = 0; i < 5; i++) {
    const session = prompted();
    session.setLogitsHook({ apply() {}, rewind: () => session.close() });
    for await (const _ of session.stream({ maxTokens: 100 })) break;
    assert.equal(session.closed, true);
  }
});

test('a runtime that is none is a TypeError', async () => {
  await assert.rejects(Model.load(modelPath, { runtime: {} }), TypeError);
  assert.throws(() => Model.loadSync(modelPath, { runtime: 7 }), TypeError);
});

test('a promise where an answer is needed at once is a TypeError', async () => {
  const slowly = async () => {};
  const store = new MemoryStore();
  const session = prompted();
  session.saveSync('snapshot', { files: store.open });
  for (const name of ['size', 'readAt', 'close']) {
    const files = (...args) => Object.assign(store.open(...args), { [name]: slowly });
    const message = new RegExp(`^${name} gave a promise`);
    assert.throws(() => Session.loadSync(new KvCache(model), 'snapshot', { files }), { name: 'TypeError', message });
  }
  const opening = { files: slowly };
  assert.throws(() => session.saveSync('snapshot', opening), { name: 'TypeError', message: /^files gave a promise/ });
  for (const name of ['onToken', 'onText'])
    assert.throws(() => prompted().generateSync({ maxTokens: 3, [name]: slowly }), {
      name: 'TypeError',
      message: new RegExp(`^${name} of generateSync\\(\\) gave a promise`),
    });
  for (const generate of ['generate', 'generateSync'])
    for (const name of ['apply', 'accept']) {
      const hooked = prompted();
      hooked.setLogitsHook({ apply() {}, [name]: slowly });
      const message = new RegExp(`^${name} gave a promise`);
      await assert.rejects(async () => hooked[generate]({ maxTokens: 3 }), { name: 'TypeError', message });
    }
  const message = /^progress gave a promise/;
  await assert.rejects(Model.load(modelPath, { progress: slowly }), { name: 'TypeError', message });
});
