// How jobs of the addon are run, at once or on a separate thread, and how they are cancelled.
'use strict';

const { addon } = require('./native.js');
const { wrong } = require('./values.js');

const kAttach = Symbol('attach');
const kCancelled = -12; // QINFER_E_CANCELLED

class Cancel {
  #requested = false;
  #running = new Set();

  /** The object itself, if it is one. */
  static #of(value) {
    if (typeof value !== 'object' || value === null || !(#running in value)) throw wrong('this', 'a Cancel', value);
    return value;
  }

  get requested() {
    return Cancel.#of(this).#requested;
  }

  request() {
    Cancel.#of(this).#requested = true;
    for (const request of this.#running) request();
  }

  reset() {
    Cancel.#of(this).#requested = false;
  }

  /** Calls `request` when this is requested, until the function that is returned is called. */
  [kAttach](request) {
    Cancel.#of(this).#running.add(request);
    if (this.#requested) request();
    return () => this.#running.delete(request);
  }
}

// `settings` are options that were read: signal and cancel among them.

/** Lets signal and cancel request the end of a job, until the function that is returned is called. */
function watch(job, { signal, cancel }, abort = () => addon.cancel(job)) {
  if (signal?.aborted) throw signal.reason;
  const detach = cancel?.[kAttach](() => addon.cancel(job));
  signal?.addEventListener('abort', abort, { once: true });
  return () => {
    signal?.removeEventListener('abort', abort);
    detach?.();
  };
}

/** What is thrown for an error of a job: the reason of its signal, if that ended it. */
function reasonOf(error, { signal }) {
  return signal?.aborted && error?.status === kCancelled ? signal.reason : error;
}

// Jobs are closed when they are over, and not when they are collected: they hold the session that they use, which could
// not be freed before.

function runSync(job, settings) {
  let release;
  try {
    release = watch(job, settings);
    return addon.runSync(job);
  } catch (error) {
    throw reasonOf(error, settings);
  } finally {
    release?.();
    addon.close(job);
  }
}

function run(job, settings) {
  return new Promise((resolve, reject) => {
    let release;
    const end = () => {
      release?.();
      addon.close(job);
    };
    const done = (failed, value) => {
      end();
      if (failed) reject(reasonOf(value, settings));
      else resolve(value);
    };
    try {
      release = watch(job, settings);
      addon.runAsync(job, done);
    } catch (error) {
      end();
      throw error;
    }
  });
}

module.exports = { Cancel, run, runSync, watch };
