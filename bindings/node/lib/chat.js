// Conversations: replies taken apart, and turns of which only what is new is evaluated.
'use strict';

const { addon } = require('./native.js');
const { Handle, kHandle } = require('./handles.js');
const { conversationOf } = require('./model.js');
const { Session } = require('./session.js');

class Reply extends Handle {
  constructor(model, messages, options) {
    super(addon.replyCreate(model[kHandle], conversationOf(messages, options), options));
  }

  push(token) {
    return addon.replyPush(this[kHandle], token);
  }

  finish() {
    return addon.replyFinish(this[kHandle]);
  }

  get message() {
    return JSON.parse(addon.replyMessage(this[kHandle]));
  }
}

class Chat {
  #prompt;
  #sampler;
  #maxTokens;

  constructor(model, { messages = [], sampler, maxTokens, ...prompt } = {}) {
    this.model = model;
    this.messages = messages;
    this.session = null;
    this.result = undefined;
    this.#sampler = sampler;
    this.#maxTokens = maxTokens;
    this.#prompt = prompt;
  }

  async send(content, options) {
    for await (const _ of this.stream(content, options));
    return this.messages.at(-1).content ?? '';
  }

  async *stream(content, options = {}) {
    const added = content === undefined || content === null ? undefined : { role: 'user', content };
    if (added) this.messages.push(added);
    try {
      if (this.session === null) {
        this.session = new Session(this.model);
        this.session.setSampler(this.#sampler);
      }
      this.session.setTokens(this.model.tokenizeChat(this.messages, this.#prompt));
      const reply = new Reply(this.model, this.messages, this.#prompt);
      try {
        yield* this.#reply(reply, options);
      } finally {
        reply.close();
      }
    } finally {
      // A turn without a reply leaves nothing: templates want roles that alternate.
      if (added && this.messages.at(-1) === added) this.messages.pop();
    }
  }

  /** The parts of the reply. What has come of one that is left, or cancelled, is kept as a message, too. */
  async *#reply(reply, { maxTokens = this.#maxTokens, ahead, signal, cancel }) {
    const pieces = this.session.streamTokens({ maxTokens, ahead, signal, cancel });
    let received = 0;
    let finished = false;
    let failed = false;
    try {
      for await (const { token } of pieces) {
        if (token < 0) continue;
        received++;
        yield* reply.push(token);
      }
      this.result = pieces.result;
      finished = true;
      yield* reply.finish();
    } catch (error) {
      failed = !signal?.aborted && !cancel?.requested;
      throw error;
    } finally {
      if (!failed && received > 0) {
        if (!finished) reply.finish();
        this.messages.push(reply.message);
      }
    }
  }

  close() {
    this.session?.close();
  }
}
if (Symbol.dispose) {
  Object.defineProperty(Chat.prototype, Symbol.dispose, {
    value() {
      this.close();
    },
    configurable: true,
    writable: true,
  });
}

module.exports = { Chat, Reply };
