// A generation that runs on a separate thread, or on that of an engine, as an async iterator. It is ahead of the loop: by
// as many tokens as the options allow, or with an engine by as many as there are. When the loop is left, what was drawn
// beyond the last item that it got is taken back.
'use strict';

const { addon } = require('./native.js');
const { watch } = require('./calls.js');
const { Feed } = require('./reply.js');
const { wrong } = require('./values.js');

/** Streams that are forgotten in the middle must not leave a session in use. */
const forgotten = new FinalizationRegistry((state) => {
  state.forgotten = true;
  leave(state);
  if (state.over) settleForgotten(state);
});

/** No more items are wanted than were consumed. */
function leave(state) {
  if (state.left) return;
  state.left = true;
  addon.leave(state.job, state.consumed);
  state.wake();
}

/** Whether no item may come any more: the loop was left, the signal aborted, or the session closed. */
function isEnded(state) {
  return state.left || addon.isClosed(state.session);
}

/** The outcome of a generation that is over; its session is free again afterwards. */
function settle(state) {
  state.release();
  try {
    return addon.settle(state.job);
  } finally {
    addon.close(state.job);
  }
}

function settleForgotten(state) {
  try {
    settle(state);
  } catch {
    // There is no caller to be told.
  }
}

/** Resolves when there may be pieces, or the generation is over. Only such a wait keeps the process alive. */
async function change(state) {
  addon.hold(state.job, true);
  await new Promise((resolve) => state.waiting.push(resolve));
  if (!state.over) addon.hold(state.job, false);
}

async function over(state) {
  while (!state.over) await change(state);
}

/** Starts a job, which is queued. The state refers to its stream nowhere, so that a forgotten stream is collected. */
function start(session, settings, jobs) {
  const job = jobs(true);
  const state = {
    job,
    session,
    consumed: 0,
    left: false,
    aborted: false,
    over: false,
    forgotten: false,
    waiting: [],
    release() {},
  };
  state.wake = () => {
    for (const resolve of state.waiting.splice(0)) resolve();
  };
  const abort = () => {
    state.aborted ||= !state.left;
    leave(state);
    addon.cancel(job);
  };
  const done = () => {
    state.over = true;
    if (state.forgotten) settleForgotten(state);
    state.wake();
  };
  try {
    state.release = watch(job, settings, abort);
    addon.runAsync(job, done, state.wake);
  } catch (error) {
    state.release();
    addon.close(job);
    throw error;
  }
  addon.hold(job, false);
  return state;
}

class Stream {
  #session;
  #settings;
  #select;
  #jobs;
  #feed;
  #state = null; // what start() gives
  #batch = null;
  #at = 0;
  #ended = false;
  #waiting = null;
  #result;

  /**
   * @param {any} session the handle; the generation begins when the first item is asked for
   * @param {any} settings options that were read
   * @param {(batch: any, at: number, feed: Feed) => any} select the item for a token, undefined for none; gives the
   *   token to the reply
   * @param {(queued: boolean) => any} jobs makes the job of the generation
   */
  constructor(session, settings, select, jobs) {
    this.#session = session;
    this.#settings = settings;
    this.#select = select;
    this.#jobs = jobs;
    this.#feed = new Feed(settings.reply);
  }

  /** The object itself, if it is one. */
  static #of(value) {
    if (typeof value !== 'object' || value === null || !(#settings in value)) throw wrong('this', 'a Stream', value);
    return value;
  }

  /** How the generation ended, once it has. */
  get result() {
    return Stream.#of(this).#result;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  next() {
    try {
      Stream.#of(this);
    } catch (error) {
      return Promise.reject(error);
    }
    if (this.#waiting === null && !this.#feed.hasReply) {
      const item = this.#take();
      if (item !== undefined) return Promise.resolve({ value: item, done: false });
    }
    // One after another, if several are asked for before the first is there.
    const waiting = this.#waiting === null ? this.#wait() : this.#waiting.then(() => this.#wait());
    const settled = waiting.catch(() => {});
    this.#waiting = settled;
    settled.then(() => {
      if (this.#waiting === settled) this.#waiting = null;
    });
    return waiting;
  }

  /** Ends the generation as of the last item. */
  async return(value) {
    if (Stream.#of(this).#state === null) this.#ended = true;
    if (!this.#ended) {
      leave(this.#state);
      await this.#finish();
    }
    return { value, done: true };
  }

  /** The next item that is there already. */
  #take() {
    const batch = this.#batch;
    if (batch === null || isEnded(this.#state)) return undefined;
    while (this.#at < batch.texts.length) {
      const item = this.#select(batch, this.#at++, this.#feed);
      this.#state.consumed++;
      if (item !== undefined) return item;
    }
    this.#batch = null;
    return undefined;
  }

  async #wait() {
    if (this.#ended) return { value: undefined, done: true };
    if (this.#state === null) this.#start();
    const state = this.#state;
    try {
      while (!isEnded(state)) {
        const item = this.#take();
        if (item !== undefined) return { value: item, done: false };
        this.#batch = addon.take(state.job) ?? null;
        this.#at = 0;
        if (this.#batch !== null) continue;
        if (state.over) break;
        await change(state);
      }
    } catch (error) {
      // The reply was closed, for example, and could not get the token.
      leave(state);
      await this.#finish();
      throw error;
    }
    await this.#finish();
    return { value: undefined, done: true };
  }

  #start() {
    try {
      this.#state = start(this.#session, this.#settings, this.#jobs);
      forgotten.register(this, this.#state, this);
    } catch (error) {
      this.#ended = true;
      throw error;
    } finally {
      this.#jobs = null; // It refers to an engine, which a stream that has ended need not keep.
    }
  }

  async #finish() {
    await over(this.#state);
    if (this.#ended) return;
    this.#ended = true;
    forgotten.unregister(this);
    this.#result = settle(this.#state);
    this.#feed.addRest(this.#session, this.#result);
    if (this.#state.aborted) throw this.#settings.signal.reason;
  }
}

module.exports = { Stream };
