// Conversations, in turns of which only what is new is evaluated.
'use strict';

const { Grammar } = require('./grammar.js');
const { handleOf } = require('./handles.js');
const { Model, messagesOf } = require('./model.js');
const { QinferError } = require('./native.js');
const { Reply } = require('./reply.js');
const { Session } = require('./session.js');
const { nested, optionsOf, u32, wrong } = require('./values.js');
const { kReply, kSampler, kTurn } = require('./options.js');

const kContextFull = -11; // QINFER_E_CONTEXT_FULL

const grammar = (value, what) => {
  handleOf(value, Grammar, what);
  return value;
};

const kChatTurn = { ...kTurn, grammar };
const kChat = {
  ...kReply,
  grammar,
  messages: (messages) => [...messagesOf(messages)],
  sampler: nested(kSampler),
  maxTokens: u32,
  maxReasoningTokens: u32,
};

class Chat {
  #prompt;
  #sampler;
  #turnOptions;
  #enforced = null; // The grammar that the last turn gave the session.

  constructor(model, options) {
    handleOf(model, Model, 'model');
    const { messages = [], sampler, ...others } = optionsOf(options, kChat, 'Chat');
    const { maxTokens, maxReasoningTokens, reasoning, grammar, ...prompt } = others;
    this.model = model;
    this.messages = messages;
    this.session = null;
    this.result = undefined;
    this.#sampler = sampler;
    this.#turnOptions = { maxTokens, maxReasoningTokens, reasoning, grammar };
    this.#prompt = prompt;
  }

  async send(content, options) {
    const turn = Chat.#begin(this, content, options, 'send()');
    const length = this.messages.length;
    for await (const _ of turn);
    // A model that ends its turn at once leaves no message.
    return (this.messages.length > length && this.messages.at(-1).content) || '';
  }

  stream(content, options) {
    return Chat.#begin(this, content, options, 'stream()');
  }

  /** A turn, which begins when its first part is asked for. */
  static #begin(chat, content, options, of) {
    Chat.#check(chat);
    if (typeof content !== 'string' && content !== null)
      throw wrong('content', 'a string, or null for a reply to the messages as they are', content);
    return chat.#turn(content, { ...chat.#turnOptions, ...optionsOf(options, kChatTurn, of) });
  }

  static #check(chat) {
    if (typeof chat !== 'object' || chat === null || !(#prompt in chat)) throw wrong('this', 'a Chat', chat);
  }

  async *#turn(content, { reasoning, grammar, ...settings }) {
    const added = content === null ? undefined : { role: 'user', content };
    messagesOf(this.messages);
    if (added) this.messages.push(added);
    try {
      this.session ??= this.#start();
      handleOf(this.session, Session, 'session');
      this.#enforce(grammar, this.model.tokenizeChat(this.messages, this.#prompt));
      const reply = new Reply(this.model, this.messages, { ...this.#prompt, reasoning });
      try {
        yield* this.#reply(reply, settings);
      } finally {
        reply.close();
      }
    } finally {
      // A turn without a reply leaves nothing: templates want roles that alternate.
      if (added && this.messages.at(-1) === added) this.messages.pop();
    }
  }

  /** Gives the session the tokens, and the grammar of this turn instead of the one of the turn before. */
  #enforce(grammar, tokens) {
    if (this.#enforced !== null && this.session.grammar === this.#enforced) this.session.setGrammar(null);
    this.#enforced = null;
    const { maxTokens } = this.session.info;
    if (tokens.length >= maxTokens) {
      const message =
        `the conversation has ${tokens.length} tokens, and a context of ${maxTokens} has no room for a reply: ` +
        'shorten or remove messages';
      throw new QinferError(kContextFull, message, tokens.length);
    }
    this.session.setTokens(tokens);
    if (grammar === undefined) return;
    this.session.setGrammar(grammar);
    this.#enforced = grammar;
  }

  #start() {
    const session = new Session(this.model);
    try {
      session.setSampler(this.#sampler);
    } catch (error) {
      session.close();
      throw error;
    }
    return session;
  }

  /** The parts of the reply. What has come of one that is left, or cancelled, is kept as a message, too. */
  async *#reply(reply, settings) {
    const { signal, cancel } = settings;
    const pieces = this.session.streamTokens({ ...settings, reply });
    let received = 0;
    let finished = false;
    let failed = false;
    try {
      for await (const { token, parts } of pieces) {
        if (token >= 0) received++;
        yield* parts;
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
    Chat.#check(this);
    this.session?.close();
  }

  static {
    const value = function () {
      Chat.#check(this);
      this.close();
    };
    if (Symbol.dispose)
      Object.defineProperty(Chat.prototype, Symbol.dispose, { value, configurable: true, writable: true });
  }
}

module.exports = { Chat };
