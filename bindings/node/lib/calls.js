// How jobs of the addon are run, at once or on a separate thread, and how they are cancelled.
'use strict';

const { addon } = require('./native.js');

const kAttach = Symbol('attach');
const kCancelled = -12; // QINFER_E_CANCELLED

class Cancel {
  #requested = false;
  #running = new Set();

  get requested() {
    return this.#requested;
  }

  request() {
    this.#requested = true;
    for (const request of this.#running) request();
  }

  reset() {
    this.#requested = false;
  }

  /** Calls `request` when this is requested, until the function that is returned is called. */
  [kAttach](request) {
    this.#running.add(request);
    if (this.#requested) request();
    return () => this.#running.delete(request);
  }
}

/** Lets options.signal and options.cancel request the end of a job, until the function that is returned is called. */
function watch(job, options, abort = () => addon.cancel(job)) {
  const { signal, cancel } = options ?? {};
  signal?.throwIfAborted();
  const detach = cancel?.[kAttach](() => addon.cancel(job));
  signal?.addEventListener('abort', abort, { once: true });
  return () => {
    signal?.removeEventListener('abort', abort);
    detach?.();
  };
}

/** What is thrown for an error of a job: the reason of its signal, if that ended it. */
function reasonOf(error, options) {
  return options?.signal?.aborted && error?.status === kCancelled ? options.signal.reason : error;
}

// Jobs are closed when they are over, and not when they are collected: they hold the session that they use, which could
// not be freed before.

function runSync(job, options) {
  let release;
  try {
    release = watch(job, options);
    return addon.runSync(job);
  } catch (error) {
    throw reasonOf(error, options);
  } finally {
    release?.();
    addon.close(job);
  }
}

/** Runs the job that `make` gives. What `make` throws rejects the promise, as all else does. */
function run(make, options) {
  return new Promise((resolve, reject) => {
    const job = make();
    let release;
    const end = () => {
      release?.();
      addon.close(job);
    };
    const done = (failed, value) => {
      end();
      if (failed) reject(reasonOf(value, options));
      else resolve(value);
    };
    try {
      release = watch(job, options);
      addon.runAsync(job, done);
    } catch (error) {
      end();
      throw error;
    }
  });
}

module.exports = { Cancel, run, runSync, watch };
