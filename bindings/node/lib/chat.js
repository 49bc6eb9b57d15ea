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

  async *stream(content, { maxTokens = this.#maxTokens, ahead, signal, cancel } = {}) {
    if (content !== undefined && content !== null) this.messages.push({ role: 'user', content });
    if (this.session === null) {
      this.session = new Session(this.model);
      this.session.setSampler(this.#sampler);
    }
    this.session.setTokens(this.model.tokenizeChat(this.messages, this.#prompt));
    const reply = new Reply(this.model, this.messages, this.#prompt);
    try {
      const pieces = this.session.streamTokens({ maxTokens, ahead, signal, cancel });
      for await (const { token } of pieces) {
        if (token >= 0) yield* reply.push(token);
      }
      this.result = pieces.result;
      yield* reply.finish();
      this.messages.push(reply.message);
    } finally {
      reply.close();
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
