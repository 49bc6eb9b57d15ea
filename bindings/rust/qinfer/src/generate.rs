//! Generation in one call, with a callback for each piece.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::ptr;
use std::time::Duration;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::{call, Error};
use crate::handle::{array, slice_at};
use crate::options::count;
use crate::panics::guard;
use crate::reply::next_part;
use crate::{sys, Cancel, Part, Reply, Session, Token};

/// How a text is generated.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// New tokens at most; 0 = until an end token or the context limit.
    pub max_tokens: u32,
    /// With a reply: after so many tokens of reasoning it is ended, and the content begins; 0 = no bound.
    pub max_reasoning_tokens: u32,
    /// The text ends before the first of these that appears.
    pub stop: Vec<String>,
    /// Pieces come with log probabilities, and with this many of the most likely tokens (at most 64). They cost a
    /// pass over the logits for each token.
    pub top_logprobs: Option<u32>,
    /// Ends the generation; its tokens stay.
    pub cancel: Option<Cancel>,
}

/// Log probabilities under the model at one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprobs<'a> {
    /// That of the token that was drawn.
    pub logprob: f64,
    /// The most likely tokens, in descending order.
    pub top_tokens: &'a [Token],
    /// Their log probabilities.
    pub top_logprobs: &'a [f64],
}

/// What one token adds to the text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<'a> {
    /// The token that was drawn; `None` for text that was held back, after the last token. An end token comes only
    /// with log probabilities, or with text.
    pub token: Option<Token>,
    /// New whole characters, maybe none. What may begin a stop text is held back.
    pub text: Cow<'a, str>,
    /// Where [`GenerateOptions::top_logprobs`] is set and there is a token.
    pub logprobs: Option<Logprobs<'a>>,
    /// The parts of the reply that are certain with the token; none without a reply.
    pub parts: Vec<Part>,
}

/// Why a generation ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token.
    End,
    /// A stop text.
    Stop,
    /// `max_tokens`, or the session is full.
    Length,
    /// The callback, or nobody reads the stream any more.
    Callback,
    /// A reason that this version of the binding does not know.
    Other(i32),
}

impl Finish {
    fn from_code(code: i32) -> Finish {
        match code as u32 {
            sys::QINFER_FINISH_END => Finish::End,
            sys::QINFER_FINISH_STOP => Finish::Stop,
            sys::QINFER_FINISH_LENGTH => Finish::Length,
            sys::QINFER_FINISH_CALLBACK => Finish::Callback,
            _ => Finish::Other(code),
        }
    }
}

/// A generation that ended, and what it took.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The whole text.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the session before.
    pub prompt_tokens: u32,
    /// Of these, taken from the cache instead of evaluated.
    pub cached_tokens: u32,
    /// Tokens drawn, the end token included.
    pub new_tokens: u32,
    /// Of these, with a reply; the end marker of the reasoning is one of them.
    pub reasoning_tokens: u32,
    /// It ended inside of the reasoning: there is no content.
    pub in_reasoning: bool,
    /// For the prompt.
    pub prefill: Duration,
    /// For the evaluations after it.
    pub decode: Duration,
}

/// Stop texts as the library reads them.
pub(crate) struct Stops<'a> {
    texts: Vec<*const c_char>,
    lens: Vec<usize>,
    _of: PhantomData<&'a GenerateOptions>,
}

impl<'a> Stops<'a> {
    pub(crate) fn new(options: &'a GenerateOptions) -> Stops<'a> {
        let texts = options.stop.iter();
        Stops {
            texts: texts.map(|text| text.as_ptr().cast()).collect(),
            lens: options.stop.iter().map(String::len).collect(),
            _of: PhantomData,
        }
    }
}

impl GenerateOptions {
    /// Without callbacks and reply; for as long as the options and `stops` live.
    pub(crate) fn raw(&self, stops: &Stops<'_>) -> sys::qinfer_generate_options {
        sys::qinfer_generate_options {
            max_tokens: self.max_tokens,
            stop: array(&stops.texts),
            stop_lens: array(&stops.lens),
            n_stop: count(stops.texts.len()),
            n_top: self.top_logprobs.unwrap_or(0),
            cancel: cancel_pointer(&self.cancel),
            max_reasoning_tokens: self.max_reasoning_tokens,
            ..sys::sized()
        }
    }
}

impl Generated {
    pub(crate) fn new(text: String, raw: &sys::qinfer_generate_result) -> Generated {
        Generated {
            text,
            finish: Finish::from_code(raw.finish),
            prompt_tokens: raw.prompt_tokens,
            cached_tokens: raw.cached_tokens,
            new_tokens: raw.new_tokens,
            reasoning_tokens: raw.reasoning_tokens,
            in_reasoning: raw.flags & sys::QINFER_RESULT_IN_REASONING != 0,
            prefill: Duration::from_nanos(raw.prefill_ns),
            decode: Duration::from_nanos(raw.decode_ns),
        }
    }
}

impl Session {
    /// Evaluates what is pending and draws tokens until an end token, a stop text or `max_tokens`. After an error or
    /// a cancellation the session keeps the tokens made so far.
    pub fn generate(&mut self, options: &GenerateOptions) -> Result<Generated, Error> {
        self.generate_with(options, |_| ControlFlow::Continue(()))
    }

    /// The same, and hands each piece to `on_piece` as it comes.
    pub fn generate_with<F>(
        &mut self,
        options: &GenerateOptions,
        on_piece: F,
    ) -> Result<Generated, Error>
    where
        F: FnMut(Piece<'_>) -> ControlFlow<()>,
    {
        self.generate_for(options, ptr::null_mut(), on_piece)
    }

    /// The same for the reply that the tokens are: each is pushed to it, and the pieces have its parts. While it is in
    /// its reasoning the session's [`LogitsHook`](crate::LogitsHook) rests: a grammar begins where the content begins.
    /// [`Reply::finish`] and [`Reply::next_part`] give what is left in the end.
    pub fn generate_with_reply<F>(
        &mut self,
        options: &GenerateOptions,
        reply: &mut Reply,
        on_piece: F,
    ) -> Result<Generated, Error>
    where
        F: FnMut(Piece<'_>) -> ControlFlow<()>,
    {
        self.generate_for(options, reply.as_mut_ptr(), on_piece)
    }

    /// `reply` is NULL, or one that the caller has borrowed.
    fn generate_for<F>(
        &mut self,
        options: &GenerateOptions,
        reply: *mut sys::qinfer_reply,
        on_piece: F,
    ) -> Result<Generated, Error>
    where
        F: FnMut(Piece<'_>) -> ControlFlow<()>,
    {
        let mut receiver = Receiver {
            on_piece,
            text: String::new(),
            reply,
            failed: None,
        };
        let stops = Stops::new(options);
        let with_logprobs = options.top_logprobs.is_some();
        let raw = sys::qinfer_generate_options {
            on_token: (!with_logprobs).then_some(on_token::<F> as _),
            on_token_info: with_logprobs.then_some(on_token_info::<F> as _),
            user: ptr::from_mut(&mut receiver).cast(),
            reply,
            ..options.raw(&stops)
        };
        let mut out = sys::sized::<sys::qinfer_generate_result>();
        // SAFETY: all of it lives through the call; only the callbacks use the receiver meanwhile.
        call(|error| unsafe { sys::qinfer_generate(self.as_mut_ptr(), &raw, &mut out, error) })?;
        if let Some(failed) = receiver.failed {
            return Err(failed);
        }
        Ok(Generated::new(receiver.text, &out))
    }
}

/// What the callbacks of one generation work with.
struct Receiver<F> {
    on_piece: F,
    text: String,
    reply: *mut sys::qinfer_reply,
    /// Why parts of the reply could not be read.
    failed: Option<Error>,
}

impl<F: FnMut(Piece<'_>) -> ControlFlow<()>> Receiver<F> {
    fn receive(&mut self, mut piece: Piece<'_>) -> i32 {
        self.text.push_str(&piece.text);
        match self.parts() {
            Ok(parts) => piece.parts = parts,
            Err(failed) => {
                self.failed = Some(failed);
                return 1;
            }
        }
        (self.on_piece)(piece).is_break() as i32
    }

    fn parts(&self) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        if !self.reply.is_null() {
            // SAFETY: the reply is borrowed for the generation, which waits for its callbacks.
            while let Some(part) = unsafe { next_part(self.reply) }? {
                parts.push(part);
            }
        }
        Ok(parts)
    }
}

unsafe extern "C" fn on_token<F: FnMut(Piece<'_>) -> ControlFlow<()>>(
    text: *const c_char,
    len: usize,
    token: sys::qinfer_token,
    user: *mut c_void,
) -> i32 {
    guard(1, || {
        // SAFETY: user is the receiver; the text lives during the call.
        let (receiver, text) = unsafe {
            (
                &mut *user.cast::<Receiver<F>>(),
                slice_at(text.cast::<u8>(), len),
            )
        };
        receiver.receive(Piece {
            token: (token >= 0).then_some(token),
            text: String::from_utf8_lossy(text),
            logprobs: None,
            parts: Vec::new(),
        })
    })
}

unsafe extern "C" fn on_token_info<F: FnMut(Piece<'_>) -> ControlFlow<()>>(
    info: *const sys::qinfer_token_info,
    user: *mut c_void,
) -> i32 {
    guard(1, || {
        // SAFETY: user is the receiver; the struct, which has at least the members of 0.2, and its arrays live during
        // the call.
        unsafe {
            let (info, receiver) = (&*info, &mut *user.cast::<Receiver<F>>());
            let token = (info.token >= 0).then_some(info.token);
            let n_top = info.n_top as usize;
            receiver.receive(Piece {
                token,
                text: String::from_utf8_lossy(slice_at(info.text.cast::<u8>(), info.text_len)),
                logprobs: token.map(|_| Logprobs {
                    logprob: info.logprob,
                    top_tokens: slice_at(info.top_tokens, n_top),
                    top_logprobs: slice_at(info.top_logprobs, n_top),
                }),
                parts: Vec::new(),
            })
        }
    })
}
