//! Replies: what a model answers, taken apart into content, reasoning and calls of tools while it comes.

use std::ffi::c_char;

use crate::error::{call, Error};
use crate::handle::{read_struct, read_text, slice_at, text_at, Owned};
use crate::options::flag;
use crate::{sys, Cancel, ChatOptions, Model, Token};

/// How a family of models writes calls of tools.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyFormat {
    /// The one that the chat template writes.
    #[default]
    Auto,
    /// No calls.
    Plain,
    /// Hermes and Qwen.
    Hermes,
    /// Llama 3.
    Llama3,
    /// Mistral.
    Mistral,
    /// DeepSeek.
    Deepseek,
    /// Functionary.
    Functionary,
    /// FireFunction.
    Firefunction,
}

impl ReplyFormat {
    fn code(self) -> i32 {
        (match self {
            ReplyFormat::Auto => sys::QINFER_REPLY_AUTO,
            ReplyFormat::Plain => sys::QINFER_REPLY_PLAIN,
            ReplyFormat::Hermes => sys::QINFER_REPLY_HERMES,
            ReplyFormat::Llama3 => sys::QINFER_REPLY_LLAMA3,
            ReplyFormat::Mistral => sys::QINFER_REPLY_MISTRAL,
            ReplyFormat::Deepseek => sys::QINFER_REPLY_DEEPSEEK,
            ReplyFormat::Functionary => sys::QINFER_REPLY_FUNCTIONARY,
            ReplyFormat::Firefunction => sys::QINFER_REPLY_FIREFUNCTION,
        }) as i32
    }
}

/// How a reply is read.
#[derive(Clone, Debug, Default)]
pub struct ReplyOptions {
    /// How calls are written.
    pub format: ReplyFormat,
    /// Nothing is taken for reasoning, even where the prompt ends with its marker.
    pub no_reasoning: bool,
    /// Those that the prompt was made with.
    pub chat: ChatOptions,
}

/// A part of a reply.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A piece of what the model says.
    Content(String),
    /// A piece of what it thinks before.
    Reasoning(String),
    /// A whole call of a tool.
    #[non_exhaustive]
    Call {
        /// Which call of the reply, from 0.
        index: u32,
        /// The name of the tool.
        name: String,
        /// Another one for each call of the conversation.
        id: String,
        /// All arguments, a JSON object as the model wrote it.
        arguments: String,
    },
}

/// Takes a reply apart while it comes: [`Reply::push`] each token, [`Reply::next_part`] until there is none, and
/// [`Reply::finish`] at the end, after which more parts may be certain.
/// [`Session::generate_with_reply`](crate::Session::generate_with_reply) pushes the tokens itself.
pub struct Reply {
    handle: Owned<sys::qinfer_reply>,
    // The log of its runtime, and files that it may be mapped from.
    _model: Model,
    _cancel: Option<Cancel>,
}

impl Reply {
    /// A reply to a conversation, the JSON text that the prompt was made of.
    pub fn new(model: &Model, conversation: &str, options: &ReplyOptions) -> Result<Reply, Error> {
        let chat = options.chat.raw()?;
        let raw = sys::qinfer_reply_options {
            flags: flag(options.no_reasoning, sys::QINFER_REPLY_NO_REASONING),
            format: options.format.code(),
            chat: &chat.options,
            ..sys::sized()
        };
        let text: *const c_char = conversation.as_ptr().cast();
        // SAFETY: model, conversation and options live through the call.
        let handle = Owned::create(sys::qinfer_reply_free, |out, error| unsafe {
            sys::qinfer_reply_create(model.as_ptr(), text, conversation.len(), &raw, out, error)
        })?;
        Ok(Reply {
            handle,
            _model: model.clone(),
            _cancel: options.chat.cancel.clone(),
        })
    }

    /// The next token of the reply.
    pub fn push(&mut self, token: Token) -> Result<(), Error> {
        // SAFETY: the handle lives.
        call(|error| unsafe { sys::qinfer_reply_push(self.handle.as_ptr(), token, error) })
    }

    /// The reply is complete: what was held back is decided.
    pub fn finish(&mut self) -> Result<(), Error> {
        // SAFETY: the handle lives.
        call(|error| unsafe { sys::qinfer_reply_finish(self.handle.as_ptr(), error) })
    }

    /// The next part that is certain, in order.
    pub fn next_part(&mut self) -> Result<Option<Part>, Error> {
        // SAFETY: the handle lives, and self is borrowed.
        unsafe { next_part(self.handle.as_ptr()) }
    }

    /// Whether its reasoning has begun and not ended. What is drawn with [`Session::sample`](crate::Session::sample)
    /// under a grammar is free until then.
    pub fn in_reasoning(&self) -> Result<bool, Error> {
        let mut reasons = 0;
        // SAFETY: the handle lives.
        call(|error| unsafe {
            sys::qinfer_reply_in_reasoning(self.handle.as_ptr(), &mut reasons, error)
        })?;
        Ok(reasons != 0)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut sys::qinfer_reply {
        self.handle.as_ptr()
    }

    /// What was pushed as a message in JSON, to add to the conversation's messages.
    pub fn message(&self) -> Result<String, Error> {
        // SAFETY: json has the room that is told.
        read_text(4096, |json, capacity, n, error| unsafe {
            sys::qinfer_reply_message(self.handle.as_ptr(), json, capacity, n, error)
        })
    }
}

/// # Safety
/// The handle lives, and nothing else uses it during the call.
pub(crate) unsafe fn next_part(reply: *mut sys::qinfer_reply) -> Result<Option<Part>, Error> {
    // SAFETY: as above; out is a struct with its size, whose texts live until the handle is next used.
    unsafe {
        let part = read_struct::<sys::qinfer_reply_part>(|out, error| {
            sys::qinfer_reply_next(reply, out, error)
        })?;
        let owned = |text: *const c_char, n| {
            String::from_utf8_lossy(slice_at(text.cast::<u8>(), n)).into_owned()
        };
        let text = owned(part.text, part.text_len);
        Ok(match part.kind as u32 {
            sys::QINFER_PART_CONTENT => Some(Part::Content(text)),
            sys::QINFER_PART_REASONING => Some(Part::Reasoning(text)),
            sys::QINFER_PART_CALL => Some(Part::Call {
                index: part.call,
                name: owned(part.name, part.name_len),
                id: text_at(part.id).into_owned(),
                arguments: text,
            }),
            _ => None,
        })
    }
}
