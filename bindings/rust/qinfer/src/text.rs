//! Tokens and text: the tokenizer, single tokens, and text out of a stream of tokens.

use std::ops::Range;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::{call, Error};
use crate::handle::{array, read_array, slice_at, Owned};
use crate::options::flag;
use crate::{sys, Cancel, Model, Token};

/// How a text is tokenized. By default with what the tokenizer puts around a text, and without looking for control
/// tokens.
#[derive(Clone, Debug)]
pub struct TokenizeOptions {
    /// Add what the tokenizer puts around a text, such as a begin token.
    pub add_special: bool,
    /// `<|im_end|>` in the text becomes one token; not for text that others wrote.
    pub parse_special: bool,
    /// `content` is searched for no added tokens at all.
    pub plain_content: bool,
    /// Steps that the call may take; 0 = 1,000,000 + 512 for each byte.
    pub max_work: u64,
    /// Bytes of the text that others wrote, ascending and apart: none of them takes part in a control token.
    pub content: Vec<Range<usize>>,
    /// Ends the call.
    pub cancel: Option<Cancel>,
}

impl Default for TokenizeOptions {
    fn default() -> Self {
        TokenizeOptions {
            add_special: true,
            parse_special: false,
            plain_content: false,
            max_work: 0,
            content: Vec::new(),
            cancel: None,
        }
    }
}

/// What a token is for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenFlags {
    /// A marker, no text.
    pub control: bool,
    /// Ends generation.
    pub end: bool,
    /// Stands for one byte.
    pub byte: bool,
}

impl Model {
    /// The tokens of a text, with what the tokenizer puts around it.
    pub fn tokenize(&self, text: &str) -> Result<Vec<Token>, Error> {
        self.tokenize_with(text, &TokenizeOptions::default())
    }

    /// The same with options.
    pub fn tokenize_with(
        &self,
        text: &str,
        options: &TokenizeOptions,
    ) -> Result<Vec<Token>, Error> {
        let content: Vec<_> = options
            .content
            .iter()
            .map(|part| sys::qinfer_text_part {
                begin: part.start as u64,
                end: part.end as u64,
            })
            .collect();
        let raw = sys::qinfer_tokenize_options {
            flags: flag(options.add_special, sys::QINFER_TEXT_ADD_SPECIAL)
                | flag(options.parse_special, sys::QINFER_TEXT_PARSE_SPECIAL)
                | flag(options.plain_content, sys::QINFER_TEXT_PLAIN_CONTENT),
            max_work: options.max_work,
            cancel: cancel_pointer(&options.cancel),
            content: array(&content),
            n_content: content.len() as u64,
            ..sys::sized()
        };
        // A token has a byte at least, but for the special ones.
        read_array(text.len() + 16, |tokens, capacity, n, error| {
            // SAFETY: the text and the options live through the call, and tokens has the room that is told.
            unsafe {
                sys::qinfer_tokenize_with(
                    self.as_ptr(),
                    text.as_ptr().cast(),
                    text.len(),
                    &raw,
                    tokens,
                    capacity,
                    n,
                    error,
                )
            }
        })
    }

    /// The text of tokens, without control tokens; bytes that are no characters become U+FFFD.
    pub fn detokenize(&self, tokens: &[Token]) -> Result<String, Error> {
        let mut detokenizer = Detokenizer::new(self)?;
        let mut text = String::new();
        for &token in tokens {
            text.push_str(detokenizer.push(token)?);
        }
        text.push_str(detokenizer.finish()?);
        Ok(text)
    }

    /// The bytes of one token, perhaps part of a character; none where there is no such token.
    pub fn token_bytes(&self, token: Token) -> &[u8] {
        let mut n = 0;
        // SAFETY: the bytes live as long as the model.
        unsafe {
            let text = sys::qinfer_token_text(self.as_ptr(), token, &mut n);
            slice_at(text.cast(), n)
        }
    }

    /// What a token is for; nothing where there is no such token.
    pub fn token_flags(&self, token: Token) -> TokenFlags {
        // SAFETY: the handle lives.
        let flags = unsafe { sys::qinfer_token_flags(self.as_ptr(), token) };
        TokenFlags {
            control: flags & sys::QINFER_TOKEN_CONTROL != 0,
            end: flags & sys::QINFER_TOKEN_END != 0,
            byte: flags & sys::QINFER_TOKEN_BYTE != 0,
        }
    }

    /// The token whose entry in the tokenizer is exactly this text, otherwise
    /// [`Status::NotFound`](crate::Status::NotFound).
    pub fn find_token(&self, text: &str) -> Result<Token, Error> {
        let mut token = 0;
        // SAFETY: the text lives through the call.
        call(|error| unsafe {
            let bytes = text.as_ptr().cast();
            sys::qinfer_token_find(self.as_ptr(), bytes, text.len(), &mut token, error)
        })?;
        Ok(token)
    }

    /// The tokens that end generation.
    pub fn end_tokens(&self) -> Result<Vec<Token>, Error> {
        // SAFETY: tokens has the room that is told.
        read_array(8, |tokens, capacity, n, error| unsafe {
            sys::qinfer_model_end_tokens(self.as_ptr(), tokens, capacity, n, error)
        })
    }
}

/// Text from tokens, one after another: whole characters, the rest is held back.
pub struct Detokenizer {
    handle: Owned<sys::qinfer_detok>,
    room: Vec<u8>,
    // The log of its runtime, and files that it may be mapped from.
    _model: Model,
}

impl Detokenizer {
    /// One at the beginning of a text.
    pub fn new(model: &Model) -> Result<Detokenizer, Error> {
        // SAFETY: the model lives.
        let handle = Owned::create(sys::qinfer_detok_free, |out, error| unsafe {
            sys::qinfer_detok_create(model.as_ptr(), out, error)
        })?;
        // What one token can complete at most, as qinfer_detok_push says.
        let room = model.info().max_token_bytes as usize * 3 + 16;
        Ok(Detokenizer {
            handle,
            room: vec![0; room],
            _model: model.clone(),
        })
    }

    /// The whole characters that a token completes.
    pub fn push(&mut self, token: Token) -> Result<&str, Error> {
        let mut n = 0;
        let (text, capacity) = (self.room.as_mut_ptr().cast(), self.room.len());
        // SAFETY: text has the room that is told.
        call(|error| unsafe {
            sys::qinfer_detok_push(self.handle.as_ptr(), token, text, capacity, &mut n, error)
        })?;
        Ok(self.text(n))
    }

    /// What is held back; then it starts over.
    pub fn finish(&mut self) -> Result<&str, Error> {
        let mut n = 0;
        let (text, capacity) = (self.room.as_mut_ptr().cast(), self.room.len());
        // SAFETY: as in push().
        call(|error| unsafe {
            sys::qinfer_detok_finish(self.handle.as_ptr(), text, capacity, &mut n, error)
        })?;
        Ok(self.text(n))
    }

    fn text(&self, n: usize) -> &str {
        // The library gives whole characters.
        std::str::from_utf8(&self.room[..n]).unwrap_or_default()
    }
}
