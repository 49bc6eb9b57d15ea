// Generation with a reply that reasons: the logits hook rests until the reasoning ends, its tokens are bounded, and a
// reply that ended inside of it is told.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancel, Chat, Model, Reply, Session } from 'qinfer';
import { cases, chatModel, failsWith, root, temporaryFolder } from './support.mjs';

const messages = [{ role: 'user', content: 'Hello!' }];
/** A template that asks for reasoning. */
const template = `${chatModel.chatTemplate()}{% if add_generation_prompt %}<think>\n{% endif %}`;
const [b, c, thinkEnd] = ['b', 'c', '</think>'].map((text) => chatModel.findToken(text));

/** A hook that lets nothing be drawn but "c". */
class OnlyC {
  applied = 0;
  accepted = [];
  apply(logits) {
    this.applied++;
    logits.fill(-Infinity);
    logits[c] = 0;
  }
  accept(token) {
    this.accepted.push(token);
  }
  rewind(n) {
    this.accepted.splice(-n);
  }
}

/** A session that draws "b" where nothing else is forced, with its hook. */
function session({ of = chatModel, hook = new OnlyC(), prompted = true } = {}) {
  const made = new Session(of);
  if (prompted) made.append(of.tokenizeChat(messages, { template }));
  made.setBias({ [b]: 1e9 });
  made.setLogitsHook(hook);
  return made;
}

const replyOf = (options) => new Reply(chatModel, messages, { template, ...options });

function thinkingChat(options) {
  const chat = new Chat(chatModel, { template, ...options });
  chat.session = session({ prompted: false });
  chat.hook = new OnlyC();
  chat.session.setLogitsHook(chat.hook);
  return chat;
}

/** Parts in short: "r:bb;c:c;". Neighbours of one kind are one. */
function shown(parts) {
  return parts
    .map(({ kind, text }) => `${kind[0]}:${text};`)
    .join('')
    .replace(/(?<=(\w):[^;]*);\1:/g, '');
}

const reasonedFor4 = [b, b, b, b, thinkEnd, c, c, c, c];
const ways = {
  async generate(from, options, onPiece) {
    return from.generate({ ...options, onToken: onPiece });
  },
  async generateSync(from, options, onPiece) {
    return from.generateSync({ ...options, onToken: onPiece });
  },
  async streamTokens(from, options, onPiece) {
    const pieces = from.streamTokens(options);
    for await (const piece of pieces) onPiece(piece);
    return pieces.result;
  },
};

for (const [name, generate] of Object.entries(ways)) {
  test(`the hook rests while a reply reasons, and reasoning has a bound: ${name}()`, async () => {
    const hook = new OnlyC();
    const reply = replyOf();
    const from = session({ hook });
    const prompt = from.length;
    const tokens = [];
    const parts = [];
    const inside = [reply.inReasoning];
    const result = await generate(from, { reply, maxTokens: 9, maxReasoningTokens: 4 }, (piece) => {
      tokens.push(piece.token);
      parts.push(...piece.parts);
      inside.push(reply.inReasoning);
    });
    parts.push(...reply.finish());
    assert.deepEqual(tokens, reasonedFor4);
    assert.equal(shown(parts), 'r:bbbb;c:cccc;');
    assert.deepEqual(inside, [true, true, true, true, true, false, false, false, false, false]);
    assert.deepEqual([result.reasoningTokens, result.inReasoning, result.finish], [5, false, 'length']);
    assert.deepEqual([hook.applied, hook.accepted], [4, [c, c, c, c]]);
    assert.deepEqual(reply.message, { role: 'assistant', content: 'cccc', reasoning_content: 'bbbb' });
    from.truncate(prompt + 7);
    assert.equal(hook.accepted.length, 2, 'what is taken back of the reasoning was never the hook');
    from.truncate(prompt + 2);
    assert.deepEqual(hook.accepted, []);
  });
}

test('a reply keeps its parts where there are no pieces', async () => {
  const options = { maxTokens: 9, maxReasoningTokens: 4 };
  const reading = async (from, reply) => {
    for await (const _ of from.stream({ ...options, reply }));
  };
  for (const generate of [
    (from, reply) => from.generate({ ...options, reply }),
    (from, reply) => from.generateSync({ ...options, reply }),
    (from, reply) => from.generateSync({ ...options, reply, onText() {} }),
    reading,
  ]) {
    const reply = replyOf();
    await generate(session(), reply);
    assert.equal(shown(reply.finish()), 'r:bbbb;c:cccc;');
  }
});

test('tokens are those of a generation without a reply', async () => {
  const options = { maxTokens: 20, topLogprobs: 1, onToken() {} };
  const draw = (more) => {
    const from = session({ hook: null });
    from.setBias({});
    const result = from.generateSync({ ...options, ...more });
    return [from.tokens, result.text, result.finish];
  };
  assert.deepEqual(draw({ reply: replyOf() }), draw({}));
});

test('the turn of a chat reasons without the hook, which has the content', async () => {
  const chat = thinkingChat({ maxTokens: 9, maxReasoningTokens: 4 });
  for (let turn = 1; turn <= 2; turn++) {
    const parts = [];
    for await (const part of chat.stream('Hello!')) parts.push(part);
    assert.equal(shown(parts), 'r:bbbb;c:cccc;');
    assert.deepEqual([chat.result.reasoningTokens, chat.result.inReasoning], [5, false]);
    assert.equal(chat.hook.applied, 4 * turn);
    assert.equal(chat.messages.length, 2 * turn);
    assert.deepEqual(chat.messages.at(-1), { role: 'assistant', content: 'cccc', reasoning_content: 'bbbb' });
  }
  assert.equal(await chat.send('Hello!', { maxReasoningTokens: 1 }), 'ccccccc');
  assert.equal(chat.result.reasoningTokens, 2);
});

test('a turn that runs out inside of the reasoning is told', async () => {
  for (const maxReasoningTokens of [undefined, 0, 3, 100]) {
    const chat = thinkingChat({ maxReasoningTokens });
    assert.equal(await chat.send('Hello!', { maxTokens: 3 }), '');
    const { finish, newTokens, reasoningTokens, inReasoning } = chat.result;
    assert.deepEqual([finish, newTokens, reasoningTokens, inReasoning], ['length', 3, 3, true]);
    assert.equal(chat.messages.at(-1).reasoning_content, 'bbb');
    assert.equal(chat.hook.applied, 0);
  }
  const ended = thinkingChat();
  ended.session.setBias({ [chatModel.endTokens[0]]: 1e9 });
  await ended.send('Hello!');
  assert.deepEqual([ended.result.finish, ended.result.inReasoning], ['end', true]);
});

test('without reasoning the hook has every token, and markers are content', async () => {
  for (const [options, turn] of [
    [{ reasoning: false }, {}],
    [{}, { reasoning: false }],
    [{ reasoning: true }, { reasoning: false }],
  ]) {
    const chat = thinkingChat({ maxTokens: 3, maxReasoningTokens: 1, ...options });
    const parts = [];
    for await (const part of chat.stream('Hello!', turn)) parts.push(part);
    assert.equal(shown(parts), 'c:ccc;');
    assert.deepEqual([chat.result.reasoningTokens, chat.result.inReasoning], [0, false]);
    assert.deepEqual(chat.hook.accepted, [c, c, c]);
    assert.deepEqual(chat.messages.at(-1), { role: 'assistant', content: 'ccc' });
  }
  const reply = replyOf({ reasoning: false });
  assert.equal(reply.inReasoning, false);
  const text = '<think>a</think>b';
  const parts = chatModel.tokenize(text, { special: false, parseSpecial: true }).flatMap((token) => reply.push(token));
  assert.equal(shown([...parts, ...reply.finish()]), `c:${text};`);
});

test('a loop that is left leaves a reply as of its last piece, which goes on', async () => {
  for (const consumed of [1, 2, 5, 7]) {
    const hook = new OnlyC();
    const from = session({ hook });
    const prompt = from.length;
    const reply = replyOf();
    const parts = [];
    let left = consumed;
    const pieces = from.streamTokens({ reply, maxTokens: 9, maxReasoningTokens: 4 });
    for await (const piece of pieces) {
      await sleep(20); // the generation goes on
      parts.push(...piece.parts);
      if (--left === 0) break;
    }
    const { newTokens, reasoningTokens, inReasoning } = pieces.result;
    assert.deepEqual([newTokens, reasoningTokens, inReasoning], [consumed, Math.min(consumed, 5), consumed < 5]);
    assert.deepEqual(from.tokens.slice(prompt), reasonedFor4.slice(0, consumed));
    assert.equal(reply.inReasoning, consumed < 5);
    assert.equal(hook.accepted.length, Math.max(0, consumed - 5));
    const rest = { reply, maxTokens: 9 - consumed, maxReasoningTokens: Math.max(4 - consumed, 0) };
    await from.generate({ ...rest, onToken: (piece) => void parts.push(...piece.parts) });
    assert.deepEqual(from.tokens.slice(prompt), reasonedFor4);
    assert.equal(shown([...parts, ...reply.finish()]), 'r:bbbb;c:cccc;');
  }
  // Before the first piece, too.
  const pieces = session().streamTokens({ reply: replyOf() });
  const first = pieces.next();
  await pieces.return();
  await first;
  assert.ok(pieces.result.inReasoning);
  assert.equal(pieces.result.reasoningTokens, pieces.result.newTokens);
});

test('a turn that is left, or cancelled, keeps what it has reasoned', async () => {
  const cancel = new Cancel();
  const ends = [
    async (chat) => {
      for await (const _ of chat.stream('Hello!')) break;
    },
    async (chat) => {
      const turn = async () => {
        for await (const _ of chat.stream('Hello!', { cancel })) cancel.request();
      };
      await failsWith('QINFER_E_CANCELLED', turn);
    },
  ];
  for (const end of ends) {
    const chat = thinkingChat({ maxTokens: 200 });
    await end(chat);
    assert.match(chat.messages.at(-1).reasoning_content, /^b+$/);
    assert.equal(await chat.send('Hello!', { maxTokens: 9, maxReasoningTokens: 4 }), 'cccc');
  }
});

test('a reply may be used, and closed, while a generation has it', async () => {
  for (const generate of Object.values(ways)) {
    const from = session();
    const prompt = from.length;
    const reply = replyOf();
    let n = 0;
    const closing = () => {
      assert.equal(reply.message.reasoning_content, 'b'.repeat(++n));
      if (n === 3) reply.close();
    };
    const error = await failsWith('QINFER_E_STATE', () => generate(from, { reply, maxTokens: 20 }, closing));
    assert.equal(error.message, 'this Reply is closed');
    assert.ok(from.length >= prompt + 3 && from.length <= prompt + 4);
    assert.equal((await generate(from, { reply: replyOf(), maxTokens: 2 }, () => {})).newTokens, 2);
  }
});

test('the reply gets a token that ends the generation without being a piece', async (t) => {
  // The markers as control tokens, as many models have them.
  const folder = temporaryFolder(t);
  const original = join(root, cases.chat_model);
  for (const name of readdirSync(original))
    if (name !== 'tokenizer.json') symlinkSync(join(original, name), join(folder, name));
  const tokenizer = JSON.parse(readFileSync(join(original, 'tokenizer.json'), 'utf8'));
  for (const token of tokenizer.added_tokens) token.special = true;
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  const of = Model.loadSync(folder);
  for (const generate of Object.values(ways)) {
    const reply = new Reply(of, messages, { template });
    const parts = [];
    const options = { reply, maxReasoningTokens: 2, stop: '</think>' };
    const result = await generate(session({ of }), options, (piece) => void parts.push(...piece.parts));
    assert.deepEqual([result.finish, result.newTokens, result.reasoningTokens], ['stop', 3, 3]);
    assert.deepEqual([result.inReasoning, reply.inReasoning], [false, false]);
    assert.equal(shown([...parts, ...reply.finish()]), 'r:bb;');
  }
});

test('generation with a reply that does not fit is refused', async () => {
  const finished = replyOf();
  finished.finish();
  const closed = replyOf();
  closed.close();
  for (const [options, code, message] of [
    [{ maxReasoningTokens: 3 }, 'QINFER_E_INVALID_ARGUMENT', /max_reasoning_tokens is 3, but there is no reply/],
    [
      { reply: new Reply(Model.loadSync(join(root, cases.chat_model)), messages) },
      'QINFER_E_INVALID_ARGUMENT',
      /another/,
    ],
    [{ reply: finished }, 'QINFER_E_STATE', /^the reply is finished$/],
    [{ reply: closed }, 'QINFER_E_STATE', /^this Reply is closed$/],
  ]) {
    const from = session();
    for (const generate of Object.values(ways)) {
      const error = await failsWith(code, () => generate(from, { maxTokens: 1, ...options }, () => {}));
      assert.match(error.message, message);
    }
    assert.equal(from.generateSync({ maxTokens: 1, reply: replyOf() }).newTokens, 1);
  }
});
