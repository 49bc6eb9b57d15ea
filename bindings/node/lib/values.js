// Checks of what programs pass: every value is looked at once, and an error names the argument and says what would be
// right. Options are copied when a call begins, so that what happens to the object afterwards changes nothing.
'use strict';

const { inspect } = require('node:util');

const kLargestU32 = 2 ** 32 - 1;

/** A value as a message shows it: short, and without running code of the program. */
function shown(value) {
  const text = inspect(value, { depth: -1, customInspect: false, breakLength: Infinity, maxStringLength: 60 });
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** The error for an argument, or member of one, that `what` names. */
function wrong(what, wanted, value, hint = '') {
  return new TypeError(`${what} must be ${wanted}, not ${shown(value)}${hint}`);
}

// ---- Kinds of values: each gives the value as it is used, or throws
const ofType = (type, wanted) => (value, what) => {
  if (typeof value !== type) throw wrong(what, wanted, value);
  return value;
};
const boolean = ofType('boolean', 'true or false');
const number = ofType('number', 'a number');
const string = ofType('string', 'a string');
const callback = ofType('function', 'a function');

const integer = (least, most) => (value, what) => {
  if (!Number.isInteger(value) || value < least || value > most)
    throw wrong(what, `an integer from ${least} to ${most}`, value);
  return value;
};
const u32 = integer(0, kLargestU32);

/** A time, perhaps a part of a millisecond. */
function milliseconds(value, what) {
  if (typeof value !== 'number' || !(value >= 0 && value <= kLargestU32))
    throw wrong(what, `a number from 0 to ${kLargestU32}`, value);
  return value;
}

/** A number or, beyond 2^53, a BigInt. */
function u64(value, what) {
  const fits = typeof value === 'bigint' ? value >= 0n && value < 1n << 64n : Number.isSafeInteger(value) && value >= 0;
  if (!fits) throw wrong(what, 'an integer from 0 to 2^64 - 1, above 2^53 - 1 a BigInt', value);
  return value;
}

/** One string, or an array of strings. */
function strings(value, what) {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) throw wrong(what, 'a string or an array of strings', value);
  return Array.from(value, (each, at) => string(each, `${what}[${at}]`));
}

const instance = (Class) => (value, what) => {
  if (!(value instanceof Class)) throw wrong(what, `a ${Class.name}`, value);
  return value;
};

/** An AbortSignal, also one of another realm. */
function signal(value, what) {
  const isSignal = typeof value?.aborted === 'boolean' && typeof value.addEventListener === 'function';
  if (!isSignal) throw wrong(what, 'an AbortSignal', value);
  return value;
}

/** A value as JSON. */
function json(value, what) {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new TypeError(`${what} must be something that JSON can say: ${error.message}`, { cause: error });
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether an object comes from {} or Object.create(null), in any realm. */
function isPlain(value) {
  const prototype = isObject(value) ? Object.getPrototypeOf(value) : undefined;
  return prototype === null || (prototype !== undefined && Object.getPrototypeOf(prototype) === null);
}

/** A copy of an array whose elements JSON can say. */
function jsonArray(value, what) {
  if (!Array.isArray(value)) throw wrong(what, 'an array', value);
  return JSON.parse(json(value, what));
}

function jsonObject(value, what) {
  if (!isPlain(value)) throw wrong(what, 'an object', value);
  return JSON.parse(json(value, what));
}

// ---- Options
/** How many letters are to be changed, added or left out to make one name of another. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}

/** The error for an option that there is not: names the one that was probably meant, or all of them. */
function unknown(name, kinds, of) {
  const names = Object.keys(kinds);
  const plain = (text) => text.replaceAll('_', '').toLowerCase();
  const distances = names.map((each) => distance(plain(name), plain(each)));
  const least = Math.min(...distances);
  const meant =
    least <= Math.max(1, name.length / 3)
      ? `did you mean ${names[distances.indexOf(least)]}?`
      : `there ${names.length === 1 ? 'is' : 'are'} ${names.join(', ')}`;
  return new TypeError(`${of} has no option ${name}: ${meant}`);
}

/**
 * A copy of the options that are given, each checked by its kind. What is undefined or null counts as not given.
 * @param {any} options an object, or undefined or null
 * @param {Record<string, (value: any, what: string) => any>} kinds of all options that there are
 * @param {string} of whose options they are
 * @param {string} what names the object itself
 */
function optionsOf(options, kinds, of, what = 'options') {
  const out = { __proto__: null };
  if (options === undefined || options === null) return out;
  const names = Object.keys(kinds);
  // An object of a class may have options, but a Map, a signal or a session that has none of them is a mistake.
  if (!isObject(options) || (!isPlain(options) && !names.some((name) => name in options)))
    throw wrong(what, 'an object', options);
  const prefix = what === 'options' ? '' : `${what}.`;
  for (const name in options) {
    if (!Object.hasOwn(kinds, name) && options[name] !== undefined) throw unknown(name, kinds, of);
  }
  for (const name of names) {
    const value = options[name];
    if (value !== undefined && value !== null) out[name] = kinds[name](value, prefix + name);
  }
  return out;
}

/** Options that are an option themselves. */
const nested = (kinds) => (value, what) => optionsOf(value, kinds, what, what);

module.exports = {
  shown,
  wrong,
  boolean,
  number,
  string,
  callback,
  integer,
  u32,
  milliseconds,
  u64,
  strings,
  instance,
  signal,
  json,
  isObject,
  isPlain,
  jsonArray,
  jsonObject,
  optionsOf,
  nested,
};
