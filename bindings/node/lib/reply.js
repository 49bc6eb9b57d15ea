// Replies taken apart, and how one gets the tokens of a generation.
'use strict';

const { addon } = require('./native.js');
const { Handle, handleOf } = require('./handles.js');
const { Model, conversationOf } = require('./model.js');
const { optionsOf } = require('./values.js');
const { kReply } = require('./options.js');

class Reply extends Handle {
  constructor(model, messages, options) {
    const handle = handleOf(model, Model, 'model');
    const settings = optionsOf(options, kReply, 'Reply');
    super(addon.replyCreate(handle, conversationOf(messages, settings), settings));
  }

  push(token) {
    return addon.replyPush(handleOf(this, Reply), token);
  }

  finish() {
    return addon.replyFinish(handleOf(this, Reply));
  }

  get inReasoning() {
    return addon.replyInReasoning(handleOf(this, Reply));
  }

  get message() {
    return JSON.parse(addon.replyMessage(handleOf(this, Reply)));
  }
}

/** The option `reply` of a generation, as the addon takes it. */
const replyOption = (value, what) => handleOf(value, Reply, what);

/**
 * Gives the tokens of a generation to its reply, if it has one: here, when the program gets them. The generation itself
 * has a copy, because it runs on another thread, and ahead of the program.
 */
class Feed {
  #reply;
  #n = 0;

  /** @param {any} reply its handle, or undefined */
  constructor(reply) {
    this.#reply = reply;
  }

  get hasReply() {
    return this.#reply !== undefined;
  }

  /** The member of a piece: {parts}, or none without a reply. */
  parts(token) {
    if (!this.hasReply) return undefined;
    if (token < 0) return { parts: [] };
    const parts = addon.replyPush(this.#reply, token);
    this.#n++;
    return { parts };
  }

  /** The same where there are no pieces: the reply keeps its parts. */
  add(token) {
    if (!this.hasReply || token < 0) return;
    addon.replyAdd(this.#reply, token);
    this.#n++;
  }

  /** Those of which no piece tells: an end token, or a control token that is a stop text. */
  addRest(session, { newTokens }) {
    if (!this.hasReply || newTokens <= this.#n || addon.isClosed(session)) return;
    for (const token of addon.sessionTokens(session).subarray(this.#n - newTokens)) this.add(token);
  }
}

module.exports = { Feed, Reply, replyOption };
