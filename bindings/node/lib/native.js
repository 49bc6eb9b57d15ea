// The addon, and the error that all of its failures are.
'use strict';

const path = require('node:path');

/** What scripts/prebuild.mjs has made for this platform. */
const folder = path.join(__dirname, '..', 'prebuilds', `${process.platform}-${process.arch}`);

/** @returns {any} the addon */
function load() {
  const file = path.join(folder, 'qinfer.node');
  try {
    return require(file);
  } catch (cause) {
    throw new Error(`qinfer has no addon that can be loaded for ${process.platform} on ${process.arch}: ${cause}`, {
      cause,
    });
  }
}

const addon = load();

class QinferError extends Error {
  constructor(status, message, detail = 0) {
    super(message);
    this.status = status;
    this.code = addon.statusName(status);
    this.detail = detail;
  }
}
Object.defineProperty(QinferError.prototype, 'name', { value: 'QinferError', configurable: true, writable: true });
addon.setErrorClass(QinferError);

module.exports = { addon, folder, QinferError };
