// What programs get of a generation: items of streams, calls of callbacks, and the result.
'use strict';

const { addon } = require('./native.js');
const { run, runSync } = require('./calls.js');
const { Feed, replyOption } = require('./reply.js');
const { Stream } = require('./stream.js');
const { optionsOf } = require('./values.js');

/** Of every generation. */
const kReplyOption = { reply: replyOption };

/** The options of generate(), whose log probabilities need someone to be told. */
function generateOptions(options, kinds, of) {
  const settings = optionsOf(options, { ...kinds, ...kReplyOption }, of);
  if (settings.topLogprobs !== undefined && !settings.onToken)
    throw new TypeError(`topLogprobs of ${of} needs onToken, whose pieces have them; streamTokens() gives pieces, too`);
  return settings;
}

function textOf(batch, at, feed) {
  feed.add(batch.tokens[at]);
  return batch.texts[at] === '' ? undefined : batch.texts[at];
}

function pieceOf(batch, at, feed) {
  const token = batch.tokens[at];
  return { token, text: batch.texts[at], ...batch.infos?.[at], ...feed.parts(token) };
}

/** A piece of which only the text is told: the parts stay for the program to take. */
function textPieceOf(batch, at, feed) {
  feed.add(batch.tokens[at]);
  return { text: batch.texts[at] };
}

/** The answer of a callback that nothing can wait for. */
function atOnce(answer, callback) {
  if (!(answer instanceof Promise)) return answer;
  answer.catch(() => {}); // The error below is what the program is told.
  throw new TypeError(`${callback} of generateSync() gave a promise, and must answer at once; generate() waits for it`);
}

/**
 * What tells the callbacks of a generation of its pieces; false from one of them ends it. When onToken has ended it, in
 * any way, onText is not called any more.
 */
function tellerOf(handle, { onToken, onText, signal }) {
  const isOver = () => signal?.aborted || addon.isClosed(handle);
  const wantsText = (answer, piece) => answer !== false && piece.text !== '' && onText && !isOver();
  return {
    tell(piece) {
      if (isOver()) return undefined;
      const answer = atOnce(onToken?.(piece), 'onToken');
      return wantsText(answer, piece) ? atOnce(onText(piece.text), 'onText') : answer;
    },
    /** The same where they may be asynchronous: one after the other. */
    async tellAsync(piece) {
      const answer = await onToken?.(piece);
      return wantsText(answer, piece) ? await onText(piece.text) : answer;
    },
  };
}

/** Streams of the jobs that jobs(queued) makes. */
const textStream = (handle, settings, jobs) => new Stream(handle, settings, textOf, jobs);
const pieceStream = (handle, settings, jobs) => new Stream(handle, settings, pieceOf, jobs);

/** The result of such a job, which has told the callbacks of its pieces. */
async function generate(handle, settings, jobs) {
  const isTold = settings.onText || settings.onToken || settings.reply;
  if (!isTold) return run(jobs(false), settings);
  const pieces = new Stream(handle, settings, settings.onToken ? pieceOf : textPieceOf, jobs);
  const teller = tellerOf(handle, settings);
  for await (const piece of pieces) {
    if ((await teller.tellAsync(piece)) === false) break;
  }
  return pieces.result;
}

function generateSync(handle, settings) {
  const teller = tellerOf(handle, settings);
  const feed = new Feed(settings.reply);
  const select = settings.onToken ? pieceOf : textPieceOf;
  const onPiece = (token, text, info) =>
    teller.tell(select({ tokens: [token], texts: [text], infos: [info] }, 0, feed));
  const told = settings.onText || settings.onToken || settings.reply ? onPiece : undefined;
  const result = runSync(addon.generate(handle, settings, false, told), settings);
  feed.addRest(handle, result);
  // The last callback aborted it.
  if (settings.signal?.aborted) throw settings.signal.reason;
  return result;
}

module.exports = { generate, generateOptions, generateSync, kReplyOption, pieceStream, textStream };
