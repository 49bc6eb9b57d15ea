//! A vocabulary: the bytes of each token, and the trie over them that masks are computed with. Made once per model.

use std::os::raw::c_void;
use std::sync::Arc;

use llguidance::api::ParserLimits;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::ParserFactory;

use crate::abi::{borrow, clear, copy_in, give, guard, null_argument, SizeFirst};
use crate::error::{CError, Code, Error, Result};
use crate::thread::with_stack;

const TOKEN_CONTROL: u32 = 1;
const TOKEN_END: u32 = 2;
/// The trie's nodes hold 22 bits of a subtree's size, and words of some 1000 bytes.
const MAX_TOKENS: usize = 4_000_000;
const MAX_BYTES: usize = 64 << 20;
const MAX_WORD: usize = 1000;
/// Marks a control token's name in the trie. No text has this byte, so that no grammar reaches one by its letters.
const CONTROL_MARK: u8 = 0xff;

type TokenText = unsafe extern "C" fn(*const c_void, i32, *mut usize) -> *const u8;
type TokenFlags = unsafe extern "C" fn(*const c_void, i32) -> u32;

/// qinfer_grammar_vocab_options.
#[repr(C)]
pub struct Options {
    struct_size: u32,
    n_tokens: u32,
    model: *const c_void,
    token_text: Option<TokenText>,
    token_flags: Option<TokenFlags>,
    texts: *const *const u8,
    text_lens: *const usize,
    flags: *const u32,
}

// SAFETY: integers, pointers and optional functions; the first is the size.
unsafe impl SizeFirst for Options {
    const NAME: &'static str = "qinfer_grammar_vocab_options";
}

pub struct Vocab {
    factory: ParserFactory,
    pub n_tokens: usize,
    pub end_tokens: Vec<u32>,
}

impl Vocab {
    /// A factory differs from another one by its limits alone: tries and masks are shared.
    pub fn parser(
        &self,
        grammar: llguidance::api::TopLevelGrammar,
        limits: ParserLimits,
    ) -> std::result::Result<llguidance::TokenParser, String> {
        let init = llguidance::api::GrammarInit::Serialized(grammar);
        let logger = llguidance::Logger::new(0, 0);
        let caps = InferenceCapabilities::default();
        self.factory.create_parser_from_init_ext(init, logger, caps, limits).map_err(|e| format!("{e:#}"))
    }
}

/// The bytes and flags of one token.
type Token<'a> = (&'a [u8], u32);

/// # Safety
/// The options are as qinfer_grammar.h wants them.
unsafe fn read_token<'a>(options: &Options, index: usize) -> Result<Token<'a>> {
    // SAFETY: arrays have n_tokens elements, and functions are called as qinfer.h declares them.
    unsafe {
        let (mut len, mut flags) = (0usize, 0u32);
        let text = match options.token_text {
            Some(token_text) => token_text(options.model, index as i32, &mut len),
            None => {
                len = options.text_lens.add(index).read();
                options.texts.add(index).read()
            }
        };
        if let Some(token_flags) = options.token_flags {
            flags = token_flags(options.model, index as i32);
        } else if !options.flags.is_null() {
            flags = options.flags.add(index).read();
        }
        if text.is_null() && len != 0 && options.token_text.is_none() {
            let message = format!("texts[{index}] is NULL and has {len} bytes");
            return Err(Error::at(Code::InvalidArgument, index as i64, message));
        }
        let bytes = if text.is_null() { &[][..] } else { std::slice::from_raw_parts(text, len) };
        Ok((bytes, flags))
    }
}

/// What the trie has for a token: nothing for those that no text may contain.
fn word((text, flags): Token) -> Vec<u8> {
    if text.is_empty() || text.len() > MAX_WORD || text.contains(&CONTROL_MARK) {
        return Vec::new();
    }
    if flags & (TOKEN_CONTROL | TOKEN_END) == 0 {
        return text.to_vec();
    }
    [&[CONTROL_MARK], text].concat()
}

/// # Safety
/// As read_token.
unsafe fn create(options: &Options) -> Result<Vocab> {
    let n_tokens = options.n_tokens as usize;
    if n_tokens == 0 || n_tokens > MAX_TOKENS {
        let message = format!("n_tokens is {n_tokens}, expected 1 to {MAX_TOKENS}");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    if options.token_text.is_none() && (options.texts.is_null() || options.text_lens.is_null()) {
        return Err(null_argument("qinfer_grammar_vocab_options: token_text, and texts or text_lens,"));
    }
    let (mut words, mut end_tokens, mut total) = (Vec::with_capacity(n_tokens), Vec::new(), 0);
    for index in 0..n_tokens {
        // SAFETY: passed on.
        let token = unsafe { read_token(options, index)? };
        if token.1 & TOKEN_END != 0 {
            end_tokens.push(index as u32);
        }
        words.push(word(token));
        total += words[index].len();
        if total > MAX_BYTES {
            let message = format!("the tokens have more than {MAX_BYTES} bytes together");
            return Err(Error::at(Code::Unsupported, index as i64, message));
        }
    }
    with_stack(0, move || build(words, end_tokens))
}

fn build(words: Vec<Vec<u8>>, end_tokens: Vec<u32>) -> Result<Vocab> {
    let n_tokens = words.len();
    let info = TokRxInfo::new(n_tokens as u32, end_tokens.first().copied().unwrap_or(INVALID_TOKEN));
    let mut trie = TokTrie::from(&info, &words);
    if !end_tokens.is_empty() {
        trie = trie.with_eos_tokens(&end_tokens);
    }
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env)
        .map_err(|e| Error::new(Code::Internal, format!("no slices of this vocabulary: {e}")))?;
    factory.quiet();
    Ok(Vocab { factory, n_tokens, end_tokens })
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_vocab_create(
    options: *const Options,
    out: *mut *const Vocab,
    err: *mut CError,
) -> i32 {
    // SAFETY: the caller's promises are passed on.
    unsafe {
        guard(err, || {
            clear(out)?;
            borrow(options, "options")?;
            let options = copy_in(options)?;
            give(out, Arc::new(create(&options)?));
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// A handle of this library, or NULL.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_vocab_free(vocab: *const Vocab) {
    if !vocab.is_null() {
        // SAFETY: gives back what qinfer_grammar_vocab_create gave out.
        let _ = crate::abi::caught(|| {
            drop(unsafe { Arc::from_raw(vocab) });
            Ok(())
        });
    }
}
