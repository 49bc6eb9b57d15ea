// What all objects of the library have in common, and how arguments become those of the addon.
'use strict';

const { fileURLToPath } = require('node:url');
const { addon } = require('./native.js');
const { callback, wrong } = require('./values.js');

/** Where an object keeps its handle of the addon. */
const kHandle = Symbol('handle');

class Handle {
  constructor(handle) {
    Object.defineProperty(this, kHandle, { value: handle });
  }

  get closed() {
    return addon.isClosed(handleOf(this, Handle));
  }

  close() {
    addon.close(handleOf(this, Handle));
  }
}
if (Symbol.dispose) {
  Object.defineProperty(Handle.prototype, Symbol.dispose, {
    value() {
      handleOf(this, Handle);
      this.close();
    },
    configurable: true,
    writable: true,
  });
}

/** The handle of an object, which must be of that class; `what` names it in the error. */
function handleOf(value, Class, what = 'this') {
  if (value instanceof Class && Object.hasOwn(value, kHandle)) return value[kHandle];
  const isPath = Class.name === 'Model' && (typeof value === 'string' || value instanceof URL);
  const hint = isPath ? ': await Model.load(path), or Model.loadSync(path), gives one' : '';
  throw wrong(what, Class === Handle ? 'an object of qinfer that can be closed' : `a ${Class.name}`, value, hint);
}

/** Tokens as the addon takes them. An Int32Array alone would turn 2 ** 40 into 0, and "a" too. */
function tokensOf(tokens, what = 'tokens') {
  if (tokens instanceof Int32Array) return tokens;
  if (typeof tokens === 'string' || typeof tokens?.[Symbol.iterator] !== 'function')
    throw wrong(what, 'a list of numbers', tokens);
  const list = Array.from(tokens);
  for (const [at, token] of list.entries()) {
    if (!Number.isInteger(token) || token !== (token | 0)) throw wrong(`${what}[${at}]`, 'a token', token);
  }
  return Int32Array.from(list);
}

function pathOf(path) {
  if (typeof path === 'string') return path;
  if (path instanceof URL && path.protocol === 'file:') return fileURLToPath(path);
  throw wrong('path', 'a string or a file: URL', path);
}

/** The option `files` of a synchronous call as the addon takes it: ENOENT, too, says that there is no such file. */
function files(open, what) {
  callback(open, what);
  return (name, writing) => {
    try {
      return open(name, writing);
    } catch (error) {
      if (error?.code === 'ENOENT') return null;
      throw error;
    }
  };
}

/** The option `files` of a call on a separate thread. */
function noFiles() {
  throw new TypeError('files needs the synchronous form of the call: its callbacks must answer at once');
}

module.exports = { Handle, handleOf, tokensOf, pathOf, files, noFiles };
