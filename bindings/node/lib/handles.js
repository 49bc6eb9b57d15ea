// What all objects of the library have in common, and how arguments become those of the addon.
'use strict';

const { fileURLToPath } = require('node:url');
const { addon } = require('./native.js');

/** Where an object keeps its handle of the addon. */
const kHandle = Symbol('handle');

class Handle {
  constructor(handle) {
    Object.defineProperty(this, kHandle, { value: handle });
  }

  get closed() {
    return addon.isClosed(this[kHandle]);
  }

  close() {
    addon.close(this[kHandle]);
  }
}
if (Symbol.dispose) {
  Object.defineProperty(Handle.prototype, Symbol.dispose, {
    value() {
      this.close();
    },
    configurable: true,
    writable: true,
  });
}

/** Tokens as the addon takes them. An Int32Array alone would turn 2 ** 40 into 0, and "a" too. */
function tokensOf(tokens) {
  if (tokens instanceof Int32Array) return tokens;
  if (typeof tokens?.[Symbol.iterator] !== 'function') throw new TypeError('tokens must be a list of numbers');
  const list = Array.from(tokens);
  for (const token of list) {
    if (!Number.isInteger(token) || token !== (token | 0)) throw new TypeError(`${token} is not a token`);
  }
  return Int32Array.from(list);
}

function pathOf(path) {
  return path instanceof URL ? fileURLToPath(path) : path;
}

/** The `open` of a host as the addon takes it: that there is no such file may also be said by throwing ENOENT. */
function openerOf(open) {
  return (name, writing) => {
    try {
      return open(name, writing);
    } catch (error) {
      if (error?.code === 'ENOENT') return null;
      throw error;
    }
  };
}

/** Options of a synchronous call with `files` as the addon takes them. */
function withFiles(options) {
  return options?.files ? { ...options, files: openerOf(options.files) } : options;
}

function refuseFiles(options) {
  if (options?.files)
    throw new TypeError('files needs the synchronous form of the call: its callbacks must answer at once');
  return options;
}

module.exports = { Handle, kHandle, tokensOf, pathOf, withFiles, refuseFiles };
