// Wrong values: everything that is exported gets everything that it is not for, as an argument, as an option and as
// `this`. Each is an error that names what is wrong. What there is to call is taken from index.d.ts.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { inspect, types } from 'node:util';
import * as qinfer from 'qinfer';
import { Cancel, Chat, Detokenizer, Engine, Grammar, KvCache, KvStore, Matcher, Model } from 'qinfer';
import { QinferError, Reply, Runtime, Session } from 'qinfer';
import { classes, functions, optionsOf } from './declared.mjs';
import { chatModel, failsWith, grammars, model, modelPath } from './support.mjs';

// Some of the values are good paths to save to.
const folder = mkdtempSync(join(tmpdir(), 'qinfer-test-'));
process.chdir(folder);
after(() => {
  process.chdir(tmpdir());
  rmSync(folder, { recursive: true });
});

const cache = new KvCache(model);
const prefixed = new KvCache(model, { prefix: true });
let nStores = 0;
const messages = [{ role: 'user', content: 'Hello!' }];

/** How an object of each class is made, and what it is closed by. */
const makers = {
  QinferError: () => new QinferError(-1, 'what'),
  Cancel: () => new Cancel(),
  Runtime: () => new Runtime({ threads: 1 }),
  Model: () => Model.loadSync(modelPath, { weights: false }),
  Detokenizer: () => new Detokenizer(model),
  KvCache: () => new KvCache(model, { budgetBlocks: 2 }),
  Session: () => new Session(cache),
  ...(grammars.skip
    ? {}
    : {
        Grammar: () => Grammar.regexSync(model, '[a-c]{3}'),
        Matcher: () => new Matcher(Grammar.regexSync(model, '[a-c]{3}')),
      }),
  KvStore: () => new KvStore(prefixed, join(folder, `store ${nStores++}`), 2 ** 20),
  Engine: () => new Engine(cache),
  Reply: () => new Reply(chatModel, messages),
  Chat: () => new Chat(chatModel),
  Stream: () => new Session(cache).stream(),
};
const handles = ['Runtime', 'Model', 'Detokenizer', 'KvCache', 'KvStore', 'Session', 'Engine', 'Reply'];
if (grammars.skip) console.log(`without Grammar and Matcher: ${grammars.skip}`);
else handles.push('Grammar', 'Matcher');

const values = [
  ...[undefined, null, true, false, 0, -0, 1, -1, 1.5, NaN, Infinity, 1e20, 2 ** 31, 2 ** 32, 10n, -1n, 1n << 64n],
  ...['', 'text', '7', Symbol('symbol'), {}, [], [7], ['text'], [{}], [[]], { apply: 7 }, { maxTokenz: 1 }],
  ...[() => {}, class Other {}, new Date(0), new Map(), new Map([['a', 'b']]), new Set([{}]), new Proxy({}, {}), /a/],
  ...[new Uint8Array(2), new Float32Array(3), new Float64Array(1), new BigInt64Array(1), new ArrayBuffer(8)],
  ...[new DataView(new ArrayBuffer(8)), new URL('https://localhost/'), Promise.resolve(), Object.create(null)],
  ...[AbortSignal.timeout(2 ** 30), ...Object.values(makers).map((make) => make())],
];

// ---- What fits a type of index.d.ts
const isNullish = (value) => value === undefined || value === null;
const isPlain = (value) => [Object.prototype, null].includes(value && Object.getPrototypeOf(value));
const isInteger = (least, most) => (value) => Number.isInteger(value) && value >= least && value <= most;
const isString = (value) => typeof value === 'string';
const isFunction = (value) => typeof value === 'function';
const isListOf = (fits) => (value) => typeof value?.[Symbol.iterator] === 'function' && [...value].every(fits);
const isTokens = (value) => !isString(value) && isListOf(isInteger(-(2 ** 31), 2 ** 31 - 1))(value);
const isMessages = (value) =>
  Array.isArray(value) && value.every((each) => each && !Array.isArray(each) && Object(each) === each);
const isBigger = (value) => typeof value === 'bigint' && value >= 0n && value < 1n << 64n;
const isBias = (value) => isPlain(value) || Array.isArray(value) || ArrayBuffer.isView(value) || value instanceof Map;
const isHook = (value) => isFunction(value) || value === null;

const isTexts = (value) => isString(value) || (Array.isArray(value) && value.every(isString));

/** Arguments of each type. */
const fitting = {
  string: isString,
  'string | readonly string[]': isTexts,
  'string | URL': isString,
  'number | bigint': (value) => isInteger(0, Number.MAX_SAFE_INTEGER)(value) || isBigger(value),
  'string | null': (value) => isString(value) || value === null,
  'Iterable<number>': isTokens,
  'Iterable<number> | string': (value) => isString(value) || isTokens(value),
  'Iterable<Session>': (value) => !isString(value) && isListOf((each) => each instanceof Session)(value),
  'readonly Message[]': isMessages,
  'Message[]': isMessages,
  Float32Array: (value) => value instanceof Float32Array,
  "'default' | 'last' | 'mean' | 'first'": (value) => value === undefined,
  'ReadonlyMap<number, number> | Readonly<Record<number, number>>': isBias,
  "LogitsHook | LogitsHook['apply'] | null": isHook,
  'Grammar | Matcher | null': (value) => value === null || value instanceof Grammar || value instanceof Matcher,
  JsonSchema: (value) => isString(value) || typeof value === 'boolean' || isPlain(value),
  'KvCache | Model': (value) => value instanceof KvCache || value instanceof Model,
};
for (const name of handles) fitting[name] = (value) => value instanceof qinfer[name];

/** Numbers, by the name of the argument. */
const integers = {
  token: isInteger(-(2 ** 31), 2 ** 31 - 1),
  id: isInteger(-(2 ** 31), 2 ** 31 - 1),
  status: isInteger(-(2 ** 31), 2 ** 31 - 1),
  detail: () => true,
  nTokens: isInteger(0, Number.MAX_SAFE_INTEGER),
  n: isInteger(0, 2 ** 32 - 1),
  back: (value) => value === undefined || isInteger(0, Number.MAX_SAFE_INTEGER)(value),
};

/** Options of each type. */
const fittingOptions = {
  boolean: (value) => typeof value === 'boolean',
  number: isInteger(0, 2 ** 32 - 1),
  'number | bigint': fitting['number | bigint'],
  string: isString,
  'string | readonly string[]': isTexts,
  AbortSignal: (value) => value instanceof AbortSignal,
  Cancel: (value) => value instanceof Cancel,
  Runtime: (value) => value instanceof Runtime,
  Reply: (value) => value instanceof Reply,
  Grammar: (value) => value instanceof Grammar,
  OpenFile: isFunction,
  'readonly unknown[]': Array.isArray,
  'Record<string, unknown>': isPlain,
  'Message[]': isMessages,
};
const floats = [
  'temperature',
  'topP',
  'minP',
  'repeatPenalty',
  'frequencyPenalty',
  'presencePenalty',
  'typicalP',
  'topNSigma',
  'dynatempRange',
  'dynatempExponent',
  'xtcProbability',
  'xtcThreshold',
  'dryMultiplier',
  'dryBase',
  'mirostatTau',
  'mirostatEta',
];

function optionFits(name, type, value) {
  if (isNullish(value)) return true;
  if (name === 'topLogprobs') return isInteger(0, 64)(value);
  if (name === 'priority') return isInteger(-(2 ** 31), 2 ** 31 - 1)(value);
  if (name === 'stepMs') return typeof value === 'number' && value >= 0 && value < 2 ** 32;
  if (floats.includes(name)) return typeof value === 'number';
  if (type.includes('=>')) return isFunction(value);
  if (/^'\w+'( \| '\w+')*$/.test(type)) return isString(value);
  const options = optionsOf(type);
  return options ? isPlain(value) : fittingOptions[type](value);
}

function argumentFits({ name, type, isOptional }, value) {
  if (optionsOf(type) !== null) return isNullish(value) || isPlain(value);
  if (isOptional && type === 'string' && isNullish(value)) return true;
  return type === 'number' ? integers[name](value) : fitting[type](value);
}

// ---- What there is to call, with arguments that are right
const rightArguments = {
  version: [],
  buildInfo: [],
  cpuInfo: [],
  plan: [modelPath, {}],
  planSync: [modelPath, {}],
  evaluate: [[], {}],
  evaluateSync: [[], {}],
  'new QinferError': [-1, 'what', 0],
  'new Cancel': [],
  'new Runtime': [{ threads: 1 }],
  'new Detokenizer': [model],
  'new KvCache': [model, { budgetBlocks: 1 }],
  'new Session': [cache, {}],
  'new Reply': [chatModel, messages, {}],
  'new Chat': [chatModel, {}],
  'Model.load': [modelPath, { weights: false }],
  'Model.loadSync': [modelPath, { weights: false }],
  'Session.load': [cache, 'no such file', {}],
  'Session.loadSync': [cache, 'no such file', {}],
  'Cancel#request': [],
  'Cancel#reset': [],
  'Model#tokenize': ['text', {}],
  'Model#detokenize': [[1]],
  'Model#token': [1],
  'Model#findToken': ['text'],
  'Model#embeddingTokens': ['text', {}],
  'Model#chatTemplate': [undefined],
  'Model#renderChat': [messages, { template: 'a' }],
  'Model#tokenizeChat': [messages, { template: 'a' }],
  'Detokenizer#push': [1],
  'Detokenizer#finish': [],
  'Session#save': ['snapshot'],
  'Session#saveSync': ['snapshot', {}],
  'Session#fork': [],
  'Session#append': [[1]],
  'Session#setTokens': [[1]],
  'Session#truncate': [0],
  'Session#setPair': ['query', 'document', {}],
  'Session#score': [{}],
  'Session#setSampler': [{}],
  'Session#setDryBreakers': [['a']],
  'Session#setBias': [{}],
  'Session#setLogitsHook': [null],
  'Session#setGrammar': [null],
  'Session#evaluate': [{}],
  'Session#evaluateSync': [{}],
  'Session#sample': [],
  'Session#sampleSync': [],
  'Session#logits': [0],
  'Session#copyLogits': [new Float32Array(1024), 0],
  'Session#logprobs': [[1], 0],
  'Session#topLogprobs': [1, 0],
  'Session#embedding': ['default', {}],
  'Session#setPair': ['q', 'd', { templateText: '{query}{document}' }],
  'Session#score': [{ yes: 'a', no: 'b' }],
  'Session#generate': [{ maxTokens: 1, onToken() {} }],
  'Session#generateSync': [{ maxTokens: 1, onToken() {} }],
  'Session#stream': [{ maxTokens: 1 }],
  'Session#streamTokens': [{ maxTokens: 1 }],
  'new KvStore': [prefixed, 'a folder', 2 ** 20],
  'KvStore#keep': [new Session(prefixed), {}],
  'KvStore#keepSync': [new Session(prefixed), {}],
  'KvStore#fetch': [[1], {}],
  'KvStore#fetchSync': [[1], {}],
  'new Engine': [cache, {}],
  'Engine#generate': [new Session(cache), { maxTokens: 1, onToken() {} }],
  'Engine#stream': [new Session(cache), { maxTokens: 1 }],
  'Engine#streamTokens': [new Session(cache), { maxTokens: 1 }],
  'Reply#push': [1],
  'Reply#finish': [],
  'Chat#send': ['Hello!', { maxTokens: 1 }],
  'Chat#stream': ['Hello!', { maxTokens: 1 }],
  'Chat#close': [],
};

if (grammars.skip) {
  for (const name of ['Grammar', 'Matcher']) delete classes[name];
} else {
  const [schema, regex, lark] = [{ enum: [1] }, '[a-c]', 'start: "a"'];
  Object.assign(rightArguments, {
    'Grammar.jsonSchema': [model, schema, {}],
    'Grammar.jsonSchemaSync': [model, schema, {}],
    'Grammar.regex': [model, regex, {}],
    'Grammar.regexSync': [model, regex, {}],
    'Grammar.lark': [model, lark, {}],
    'Grammar.larkSync': [model, lark, {}],
    'new Matcher': [makers.Grammar()],
    'Matcher#clone': [],
    'Matcher#mask': [],
    'Matcher#accept': [[]],
    'Matcher#rewind': [0],
  });
}

/** Calls a method of an object that is made for it. */
async function callMethod(name, method, args) {
  const object = name === 'Model' ? chatModel : makers[name]();
  try {
    return await object[method](...args);
  } finally {
    if (name !== 'Model') object.close?.();
  }
}

/** [{name, parameters, call(arguments)}] of all functions, constructors and methods of index.d.ts. */
function callables() {
  const found = [];
  const add = (name, parameters, call) => found.push({ name, parameters, call });
  for (const [name, parameters] of Object.entries(functions)) add(name, parameters, (args) => qinfer[name](...args));
  for (const [name, { construct, statics, methods }] of Object.entries(classes)) {
    const Class = qinfer[name];
    if (construct !== null) add(`new ${name}`, construct, (args) => new Class(...args));
    for (const [each, parameters] of Object.entries(statics))
      add(`${name}.${each}`, parameters, (args) => Class[each](...args));
    for (const [each, parameters] of Object.entries(methods))
      if (!each.startsWith('[')) add(`${name}#${each}`, parameters, (args) => callMethod(name, each, args));
  }
  return found;
}

/** What a call throws or rejects with, or undefined. */
async function failureOf(call) {
  try {
    const result = await call();
    result?.close?.();
    return undefined;
  } catch (error) {
    return error ?? new Error(`${error} was thrown`);
  }
}

/** Asserts that a call is a TypeError whose message has one of the words. */
async function isTypeError(call, words, where) {
  const error = await failureOf(call);
  assert.ok(error instanceof TypeError, `${where}: ${error?.stack ?? 'no error'}`);
  const isNamed = words.some((word) => new RegExp(`(^|\\W)${word}(\\W|$)`).test(error.message));
  assert.ok(isNamed, `${where}: "${error.message}" does not name ${words.join(' or ')}`);
}

function shown(value) {
  return inspect(value, { depth: 0 });
}

test('everything that is exported is declared, and everything that is declared is there', () => {
  const without = grammars.skip ? ['default', 'Grammar', 'Matcher'] : ['default'];
  const exported = Object.keys(qinfer).filter((name) => !without.includes(name));
  assert.deepEqual(exported.sort(), [...Object.keys(functions), ...Object.keys(classes)].sort());
  const own = (object, skipped) => Reflect.ownKeys(object).filter((key) => !skipped.includes(key));
  for (const [name, { statics, methods, properties }] of Object.entries(classes)) {
    const declared = Object.keys({ ...methods, ...properties }).map((key) =>
      key.replace('[Symbol.dispose]', 'dispose'),
    );
    const inherited = ['constructor', 'name', ...(name === 'Session' ? ['close'] : [])];
    for (const key of own(qinfer[name].prototype, inherited)) {
      if (typeof key === 'string') assert.ok(declared.includes(key), `${name}#${key} is not declared`);
    }
    const made = makers[name]();
    for (const key of declared) assert.ok(key === 'dispose' || key in made, `${name}#${key} is not there`);
    assert.deepEqual(own(qinfer[name], ['length', 'name', 'prototype']), Object.keys(statics), name);
  }
});

test('every wrong argument is a TypeError that names it', async () => {
  const all = callables();
  assert.deepEqual(all.map(({ name }) => name).sort(), Object.keys(rightArguments).sort());
  for (const { name, parameters, call } of all) {
    assert.equal(parameters.length, rightArguments[name].length, name);
    for (const [at, parameter] of parameters.entries()) {
      for (const value of values) {
        const args = rightArguments[name].toSpliced(at, 1, value);
        const isFree = name === 'new QinferError' && parameter.name !== 'status'; // as of any Error
        if (isFree || argumentFits(parameter, value)) await failureOf(() => call(args));
        else {
          // A session as options of plan(): its members are looked at, as those of any object of a class.
          const words = { id: ['token'], options: ['options', 'has no option'] }[parameter.name] ?? [parameter.name];
          await isTypeError(() => call(args), words, `${name} with ${parameter.name} ${shown(value)}`);
        }
      }
    }
  }
});

/** [{name, call(options), options: {name: type}, right}] of all that take options. */
function optionTakers() {
  return callables().flatMap(({ name, parameters, call }) => {
    const at = parameters.findIndex(({ type }) => optionsOf(type) !== null);
    if (at < 0) return [];
    const args = rightArguments[name];
    const withOptions = (options) => call(args.toSpliced(at, 1, options));
    return [{ name, call: withOptions, options: optionsOf(parameters[at].type), right: args[at] }];
  });
}

test('every wrong value of an option is a TypeError that names it', async () => {
  for (const { name, call, options, right } of optionTakers()) {
    for (const [option, type] of Object.entries(options)) {
      for (const value of values) {
        const wrong = { ...right, [option]: value };
        if (optionFits(option, type, value)) await failureOf(() => call(wrong));
        else await isTypeError(() => call(wrong), [option], `${name} with ${option} ${shown(value)}`);
      }
    }
  }
});

/** Ways to misspell a name. */
function misspelt(name) {
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return [`${name}${name.at(-1)}`, `x${name}`, snake, name.toLowerCase()].filter((each) => each !== name);
}

test('an option that is misspelt is a TypeError that names the right one', async () => {
  const takers = optionTakers();
  const parts = Object.entries(takers.find(({ name }) => name === 'plan').options).flatMap(([part, type]) => {
    const options = optionsOf(type);
    return options ? [{ name: part, options, call: (inner) => qinfer.plan(modelPath, { [part]: inner }) }] : [];
  });
  assert.equal(parts.length, 4);
  for (const { name, call, options, right } of [...takers, ...parts]) {
    for (const option of Object.keys(options))
      for (const wrong of misspelt(option))
        await isTypeError(() => call({ ...right, [wrong]: 1 }), [`mean ${option}`], `${name} with ${wrong}`);
    const names = Object.keys(options).slice(0, 1);
    await isTypeError(() => call({ ...right, somethingElse: 1 }), names, name);
    assert.equal((await failureOf(() => call({ ...right, somethingElse: undefined }))) instanceof TypeError, false);
  }
});

/** Members of a class that need one of its objects: [[name, call(this), whether all handles have it]]. */
function members(Class) {
  const found = [];
  for (let object = Class.prototype; object !== Object.prototype; object = Object.getPrototypeOf(object)) {
    if (object === Error.prototype) break;
    for (const [key, { value, get }] of Object.entries(Object.getOwnPropertyDescriptors(object)))
      if (key !== 'constructor' && typeof (get ?? value) === 'function')
        found.push([key, (self) => Reflect.apply(get ?? value, self, []), object !== Class.prototype]);
  }
  return found;
}

test('a method of another object is a TypeError that names the class', async () => {
  const { constructor: Stream } = makers.Stream();
  for (const [name, make] of Object.entries(makers)) {
    const Class = name === 'Stream' ? Stream : qinfer[name];
    for (const [member, call, isCommon] of members(Class)) {
      for (const other of [...values, Class.prototype, Object.create(Class.prototype), Object.create(make())]) {
        if (other instanceof Class && values.includes(other)) continue;
        if (isCommon && handles.some((each) => other instanceof qinfer[each])) continue;
        await isTypeError(() => call(other), [name, 'qinfer'], `${name}#${member} of ${shown(other)}`);
      }
    }
    if (Symbol.dispose in Class.prototype)
      await isTypeError(() => Class.prototype[Symbol.dispose].call({}), [name, 'qinfer'], `${name}[Symbol.dispose]`);
  }
  // An object with the handle of another class: what JavaScript believes, the addon does not.
  const disguised = Object.setPrototypeOf(makers.KvCache(), Session.prototype);
  for (const use of [() => disguised.length, () => disguised.append([1]), () => disguised.generate({ maxTokens: 1 })])
    await isTypeError(use, ['Session'], String(use));
  await isTypeError(() => new KvCache(Object.setPrototypeOf(makers.Runtime(), Model.prototype)), ['Model'], 'KvCache');
});

test('the addon takes no handle but its own', async (t) => {
  const symbol = Object.getOwnPropertySymbols(model)[0];
  const forged = Object.create(Session.prototype, { [symbol]: { value: undefined, writable: true } });
  // A pointer of Node's own, such as another addon could have, too.
  const server = createServer().listen(join(folder, 'socket'));
  t.after(() => server.close());
  const foreign = server._handle._externalStream;
  assert.ok(types.isExternal(foreign));
  for (const handle of [undefined, null, 7, {}, [], () => {}, 'text', model[symbol], foreign]) {
    forged[symbol] = handle;
    await isTypeError(() => forged.length, ['Session'], `length of ${shown(handle)}`);
    if (handle === model[symbol]) continue;
    for (const use of [() => forged.closed, () => KvCache.prototype.close.call(forged)])
      await isTypeError(use, ['handle'], `${use} of ${shown(handle)}`);
  }
});

test('what is closed is QINFER_E_STATE, with its class, as an argument and as this', async () => {
  const exempt = ['QinferError', 'Cancel', 'Chat', 'Stream'];
  for (const [name, make] of Object.entries(makers)) {
    if (exempt.includes(name)) continue;
    const closed = make();
    closed.close();
    for (const method of Object.keys(classes[name].methods)) {
      const args = rightArguments[`${name}#${method}`];
      const call = async () => {
        const result = await closed[method](...args);
        await result?.next?.();
      };
      assert.match((await failsWith('QINFER_E_STATE', call)).message, new RegExp(`^this ${name} is closed$`));
    }
    for (const { name: callable, parameters, call } of callables()) {
      const at = parameters.findIndex(({ type }) => type.split(' | ').includes(name));
      if (at < 0) continue;
      // A chat uses its model only in its turns.
      if (callable === 'new Chat') continue;
      await failsWith('QINFER_E_STATE', async () => {
        const result = await call(rightArguments[callable].toSpliced(at, 1, closed));
        await result?.next?.();
      });
    }
  }
  const closed = makers.Session();
  closed.close();
  await failsWith('QINFER_E_STATE', () => qinfer.evaluate([closed]));
  const chat = new Chat(chatModel);
  chat.session = closed;
  await failsWith('QINFER_E_STATE', () => chat.send('Hello!'));
  assert.deepEqual(chat.messages, []);
});

test('a path where a model belongs says how to load it', () => {
  for (const Class of [Session, KvCache, Detokenizer, Chat, Reply])
    for (const path of [modelPath, new URL(`file://${modelPath}`)])
      assert.throws(() => new Class(path, messages), {
        name: 'TypeError',
        message: /: await Model\.load\(path\), or /,
      });
});
