//! A vocabulary: the bytes of each token, and the trie over them that masks are computed with. Made once per model.

use std::os::raw::c_void;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::ParserFactory;

use crate::abi::{borrow, clear, copy_in, give, guard, null_argument, SizeFirst};
use crate::error::{CError, Code, Error, Result};
use crate::rows;
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
    /// What Lark grammars would call the end tokens.
    pub end_names: Vec<String>,
    /// A bit for each token that a text may contain, and one for each that ends it.
    pub drawn: Vec<u32>,
    pub ends: Vec<u32>,
}

/// What the engine makes of a grammar.
pub enum Parsed {
    Parser(Box<llguidance::TokenParser>),
    /// A rule at whose beginning there are too many items.
    RowTooLong(String),
}

impl Vocab {
    /// A factory differs from another one by its limits alone: tries and masks are shared.
    pub fn parser(
        &self,
        grammar: llguidance::api::TopLevelGrammar,
        limits: ParserLimits,
    ) -> std::result::Result<Parsed, String> {
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut logger = llguidance::Logger::new(0, 0);
            let env = self.factory.tok_env();
            let (grammar, lexer) = GrammarInit::Serialized(grammar).to_internal(Some(env.clone()), limits.clone())?;
            let init = GrammarInit::Internal(grammar.clone(), lexer.clone());
            let extra = self.factory.extra_lexemes();
            let compiled = init.to_cgrammar(Some(env.clone()), &mut logger, limits.clone(), extra)?;
            if let Some(rule) = rows::too_long(&compiled, limits.max_items_in_row) {
                return Ok(Parsed::RowTooLong(rule.to_string()));
            }
            let (init, caps) = (GrammarInit::Internal(grammar, lexer), InferenceCapabilities::default());
            Ok(Parsed::Parser(Box::new(self.factory.create_parser_from_init_ext(init, logger, caps, limits)?)))
        }));
        made.map_err(|e| format!("{e:#}"))
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

/// Whether the engine would take a control token's name, or the beginning of one, for the number of a token, as it
/// writes them: [123].
fn like_a_number(name: &[u8]) -> bool {
    let Some(digits) = name.strip_prefix(b"[") else { return false };
    digits.strip_suffix(b"]").unwrap_or(digits).iter().all(u8::is_ascii_digit)
}

/// What the trie has for a token: nothing for those that no text may contain. End tokens have a name that no grammar can
/// write, since the engine accepts them nowhere but where the grammar is complete.
fn word((text, flags): Token) -> Vec<u8> {
    if flags & TOKEN_END != 0 {
        return vec![CONTROL_MARK, 0];
    }
    if text.is_empty() || text.len() > MAX_WORD || text.contains(&CONTROL_MARK) {
        return Vec::new();
    }
    if flags & TOKEN_CONTROL == 0 {
        return text.to_vec();
    }
    if like_a_number(text) {
        return Vec::new();
    }
    [&[CONTROL_MARK], text].concat()
}

/// A bit for each of `n` tokens that is chosen.
fn bits(n: usize, chosen: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut bits = vec![0; n.div_ceil(32)];
    for token in (0..n).filter(|&token| chosen(token)) {
        bits[token / 32] |= 1 << (token % 32);
    }
    bits
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
    let (mut words, mut end_tokens, mut end_names, mut total) =
        (Vec::with_capacity(n_tokens), Vec::new(), Vec::new(), 0);
    for index in 0..n_tokens {
        // SAFETY: passed on.
        let token = unsafe { read_token(options, index)? };
        if token.1 & TOKEN_END != 0 {
            end_tokens.push(index as u32);
            end_names.push(String::from_utf8_lossy(token.0).into_owned());
        }
        words.push(word(token));
        total += words[index].len();
        if total > MAX_BYTES {
            let message = format!("the tokens have more than {MAX_BYTES} bytes together");
            return Err(Error::at(Code::Unsupported, index as i64, message));
        }
    }
    with_stack(0, move || build(words, end_tokens, end_names))
}

fn build(words: Vec<Vec<u8>>, end_tokens: Vec<u32>, end_names: Vec<String>) -> Result<Vocab> {
    let n_tokens = words.len();
    let is_end = |token: usize| end_tokens.binary_search(&(token as u32)).is_ok();
    let (drawn, ends) = (bits(n_tokens, |token| !words[token].is_empty() && !is_end(token)), bits(n_tokens, is_end));
    let info = TokRxInfo::new(n_tokens as u32, end_tokens.first().copied().unwrap_or(INVALID_TOKEN));
    let mut trie = TokTrie::from(&info, &words);
    if !end_tokens.is_empty() {
        trie = trie.with_eos_tokens(&end_tokens);
    }
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env)
        .map_err(|e| Error::new(Code::Internal, format!("no slices of this vocabulary: {e}")))?;
    factory.quiet();
    Ok(Vocab { factory, n_tokens, end_tokens, end_names, drawn, ends })
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
