// Notes which public functions the tests call, for scripts/uncalled.mjs: every process of the tests writes them into
// the folder $QINFER_NODE_CALLS, if there is that variable. What counts is a call by a test that succeeds. Calls by the
// package itself do not, nor do those of misuse.test.mjs, which calls everything with wrong values.
'use strict';

const { writeFileSync } = require('node:fs');
const { basename, join } = require('node:path');

const folder = process.env.QINFER_NODE_CALLS;
const all = new Set();
const called = new Set();

/** Whether what called `function_` is a test. */
function isCalledByTest(function_) {
  const place = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 1;
  Error.captureStackTrace(place, function_);
  Error.stackTraceLimit = limit;
  const frame = decodeURI(place.stack);
  return frame.includes(`${__dirname}/`) && !frame.includes('misuse.test.mjs');
}

function noteSuccess(name, result) {
  if (typeof result?.then === 'function')
    result.then(
      () => called.add(name),
      () => {},
    );
  else called.add(name);
}

/** A function that does the same and notes its calls. */
function noting(name, function_) {
  all.add(name);
  function wrapper(...args) {
    const counts = !called.has(name) && isCalledByTest(wrapper);
    const result = Reflect.apply(function_, this, args);
    if (counts) noteSuccess(name, result);
    return result;
  }
  return Object.defineProperty(wrapper, 'name', { value: function_.name });
}

/** Replaces the functions of an object: methods, and those of its properties. */
function noteMembers(object, prefix, skipped) {
  for (const key of Reflect.ownKeys(object)) {
    if (skipped.includes(key)) continue;
    const descriptor = Object.getOwnPropertyDescriptor(object, key);
    const name = typeof key === 'symbol' ? `${prefix}[${key.description}]` : `${prefix}.${key}`;
    for (const part of ['value', 'get', 'set'])
      if (typeof descriptor[part] === 'function') descriptor[part] = noting(name, descriptor[part]);
    Object.defineProperty(object, key, descriptor);
  }
}

/** The class as programs see it, whose construction is noted. */
function noteClass(Class, isConstructed) {
  const internal = Object.getOwnPropertySymbols(Class.prototype).filter((key) => key.description === 'attach');
  noteMembers(Class.prototype, Class.name, ['constructor', 'name', ...internal]);
  noteMembers(Class, Class.name, ['length', 'name', 'prototype']);
  if (!isConstructed) return Class;
  const name = `new ${Class.name}`;
  all.add(name);
  return new Proxy(Class, {
    construct: function construct(target, args, newTarget) {
      const counts = isCalledByTest(construct);
      const made = Reflect.construct(target, args, newTarget);
      if (counts) called.add(name);
      return made;
    },
  });
}

if (folder) {
  const qinfer = require('../lib/index.js');
  noteClass(Object.getPrototypeOf(qinfer.Model), false); // what they all have: close() and so on
  noteClass(require('../lib/stream.js').Stream, false);
  for (const [name, value] of Object.entries(qinfer)) {
    const isClass = /^class\b/.test(Function.prototype.toString.call(value));
    qinfer[name] = isClass ? noteClass(value, ![qinfer.Model, qinfer.Grammar].includes(value)) : noting(name, value);
  }
  process.on('exit', () => {
    const name = `${process.pid}-${basename(process.argv[1] ?? 'none')}.json`;
    writeFileSync(join(folder, name), JSON.stringify({ all: [...all], called: [...called] }));
  });
}
