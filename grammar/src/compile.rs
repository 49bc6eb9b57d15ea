//! Compiled grammars: a text, checked and compiled on a thread with a stack of its own, and the matcher that new ones
//! are copies of.

use std::sync::Arc;
use std::time::Duration;

use llguidance::api::{GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::{JsonCompileOptions, Matcher};
use serde_json::Value;

use crate::abi::{borrow, bytes, caught, clear, copy_in, copy_out, give, guard, SizeFirst};
use crate::check;
use crate::error::{CError, Code, Error, Result};
use crate::schema::{rewrite, Rewritten};
use crate::thread::with_stack;
use crate::vocab::{Parsed as Made, Vocab};

const JSON_SCHEMA: i32 = 1;
const REGEX: i32 = 2;
const LARK: i32 = 3;
const ANY_SPACE: u32 = 1;
/// serde_json refuses more than 128.
const MAX_DEPTH: u32 = 120;
const MAX_SOURCE: u64 = 1 << 20;
/// The engine counts some 14 steps in a microsecond. What it does not count may take 70 times as long as these, and a
/// little in any case: a machine may be slow.
const TIME_PER_STEP: Duration = Duration::from_micros(5);
const LEAST_TIME: Duration = Duration::from_millis(100);
/// What may be between two parts of a document: nothing, up to two blanks, or a line's end and the next one's
/// indentation. Without bounds a model that has begun to write blanks may never end.
const BOUNDED_SPACE: &str = r"[\x20\x09]{1,2}|\x0D?\x0A[\x20\x09]{0,40}";

/// qinfer_grammar_options.
#[repr(C)]
pub struct Options {
    struct_size: u32,
    flags: u32,
    max_source_bytes: u64,
    max_depth: u32,
    max_states: u32,
    max_symbols: u32,
    max_row_items: u32,
    compile_work: u64,
    mask_work: u64,
}

// SAFETY: integers; the first is the size.
unsafe impl SizeFirst for Options {
    const NAME: &'static str = "qinfer_grammar_options";
}

/// qinfer_grammar_info.
#[repr(C)]
pub struct Info {
    struct_size: u32,
    kind: i32,
    n_tokens: u32,
    n_warnings: u32,
}

// SAFETY: integers; the first is the size.
unsafe impl SizeFirst for Info {
    const NAME: &'static str = "qinfer_grammar_info";
}

pub struct Grammar {
    pub vocab: Arc<Vocab>,
    /// At the beginning; new matchers are deep copies, so that they share no cache and no lock.
    pub fresh: std::sync::Mutex<Matcher>,
    /// CPU time that a call of the engine may take.
    pub time: Duration,
    kind: i32,
    n_warnings: u32,
}

struct Limits {
    source: usize,
    depth: u32,
    any_space: bool,
    parser: ParserLimits,
    time: Duration,
}

/// `value`, or `default` where it is 0; beyond `most` an error that names it.
fn limit(value: u64, default: u64, most: u64, name: &str) -> Result<u64> {
    if value > most {
        return Err(Error::new(Code::InvalidArgument, format!("{name} is {value}, expected at most {most}")));
    }
    Ok(if value == 0 { default } else { value })
}

fn limits(options: &Options) -> Result<Limits> {
    if options.flags & !ANY_SPACE != 0 {
        let message = format!("qinfer_grammar_options.flags has unknown bits: {:#x}", options.flags & !ANY_SPACE);
        return Err(Error::new(Code::Unsupported, message));
    }
    let mask_work = limit(options.mask_work, 200_000, 100_000_000, "mask_work")?;
    let parser = ParserLimits {
        max_items_in_row: limit(options.max_row_items.into(), 2_000, 1_000_000, "max_row_items")? as usize,
        initial_lexer_fuel: limit(options.compile_work, 1_000_000, 1_000_000_000, "compile_work")?,
        step_lexer_fuel: mask_work,
        step_max_items: mask_work as usize / 4,
        max_lexer_states: limit(options.max_states.into(), 50_000, 10_000_000, "max_states")? as usize,
        max_grammar_size: limit(options.max_symbols.into(), 200_000, 10_000_000, "max_symbols")? as usize,
        precompute_large_lexemes: true,
        verbose_errors: false,
    };
    Ok(Limits {
        source: limit(options.max_source_bytes, 256 << 10, MAX_SOURCE, "max_source_bytes")? as usize,
        depth: limit(options.max_depth.into(), 64, MAX_DEPTH.into(), "max_depth")? as u32,
        any_space: options.flags & ANY_SPACE != 0,
        parser,
        time: TIME_PER_STEP.saturating_mul(mask_work as u32).max(LEAST_TIME),
    })
}

/// The byte offset of a line and column, both from 1, as serde_json counts them.
fn offset(text: &str, line: usize, column: usize) -> i64 {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)) as i64
}

fn schema(text: &str, limits: &Limits) -> Result<(TopLevelGrammar, usize)> {
    let document: Value = serde_json::from_str(text).map_err(|e| {
        let at = offset(text, e.line(), e.column());
        Error::at(Code::Format, at, format!("the JSON schema is not JSON: {e}"))
    })?;
    let Rewritten { mut schema, notes } = rewrite(&document)?;
    if let Value::Bool(any) = schema {
        schema = if any { serde_json::json!({}) } else { serde_json::json!({"enum": []}) };
    }
    let mut options = JsonCompileOptions::default();
    if !limits.any_space {
        options.whitespace_pattern = Some(BOUNDED_SPACE.to_string());
    }
    // Without \\u: the engine tells property names apart by their text as it is written, so that there must be one way to
    // write each.
    options.json_allowed_escapes = Some("nrbtf\\\"".to_string());
    options.apply_to(&mut schema);
    Ok((TopLevelGrammar::from_grammar(GrammarWithLexer::from_json_schema(schema)), notes))
}

/// What goes to the engine.
struct Parsed {
    grammar: TopLevelGrammar,
    what: &'static str,
    /// Kinds of documents that are left out.
    notes: usize,
}

fn parse(kind: i32, bytes: &[u8], limits: &Limits) -> Result<Parsed> {
    let (what, quotes): (_, &[u8]) = match kind {
        JSON_SCHEMA => ("JSON schema", b"\""),
        REGEX => ("regular expression", b""),
        LARK => ("Lark grammar", b"\"/"),
        _ => {
            let message = format!("kind is {kind}, expected QINFER_GRAMMAR_JSON_SCHEMA, _REGEX or _LARK");
            return Err(Error::new(Code::InvalidArgument, message));
        }
    };
    let text = check::text(bytes, limits.source, what)?;
    check::depth(text, limits.depth, quotes, what)?;
    let (grammar, notes) = match kind {
        JSON_SCHEMA => schema(text, limits)?,
        REGEX => (TopLevelGrammar::from_regex(text), 0),
        _ => (TopLevelGrammar::from_lark(text.to_string()), 0),
    };
    Ok(Parsed { grammar, what, notes })
}

/// Turns what the compiler says into a status: its panics, what it lacks, what is beyond a limit, what cannot be met.
fn refusal(what: &str, notes: usize, said: &str) -> Error {
    let said = said.split("\n<backtrace>").next().unwrap_or(said);
    let said = said.split("\n<").next().unwrap_or(said).trim();
    if said.contains("symbols.len() < u16::MAX") {
        return Error::new(Code::Unsupported, format!("the {what} has more symbols than the engine can hold"));
    }
    if said.contains("missing special token prefix") {
        let message = format!("the {what} names a control token as <name>, and this vocabulary has none");
        return Error::new(Code::Format, message);
    }
    if let Some(panic) = said.strip_prefix("panic: ") {
        return crate::abi::panicked(panic);
    }
    if said.contains("Unsatisfiable schema") || said.contains("unsatisfiable") {
        if notes > 0 {
            let message = format!("no document that can be drawn fulfils this {what}, though others may: {said}");
            return Error::new(Code::Unsupported, message);
        }
        return Error::new(Code::InvalidArgument, format!("nothing fulfils this {what}: {said}"));
    }
    if let Some((_, keys)) = said.split_once("Unimplemented keys: ") {
        return Error::new(Code::Unsupported, format!("the {what} has keywords that no grammar enforces: {keys}"));
    }
    let beyond = ["too big", "too large", "too complex", "exceeded", "limit", "fuel"];
    if beyond.iter().any(|word| said.contains(word)) {
        return Error::new(
            Code::Unsupported,
            format!("the {what} is beyond a limit of qinfer_grammar_options: {said}"),
        );
    }
    let code = if what == "JSON schema" { Code::Unsupported } else { Code::Format };
    let line = said.split_whitespace().collect::<Vec<_>>().join(" "); // the engine draws arrows below the text
    Error::new(code, format!("the {what} cannot be compiled: {line}"))
}

/// The refusal of a grammar that names an end token as a part of the text.
fn named_end(vocab: &Vocab, what: &str, said: &str) -> Option<Error> {
    let name = vocab.end_names.iter().find(|name| said.contains(&format!("unknown special token: {name:?}")))?;
    let message = format!(
        "the {what} names {name}, which is an end token: it may come where the text is complete and nowhere else, so \
         leave it out"
    );
    Some(Error::new(Code::Unsupported, message))
}

fn row_too_long(what: &str, rule: &str, limit: usize) -> Error {
    let message = format!(
        "the {what} has more than {limit} items where its rule {rule:?} begins, which is beyond max_row_items of \
         qinfer_grammar_options; a terminal is one item whatever it matches"
    );
    Error::new(Code::Unsupported, message)
}

fn compile(vocab: Arc<Vocab>, kind: i32, bytes: &[u8], limits: &Limits) -> Result<Grammar> {
    with_stack(bytes.len().min(limits.source), || {
        let Parsed { grammar, what, notes } = parse(kind, bytes, limits)?;
        let made = vocab.parser(grammar, limits.parser.clone());
        let refused = |said: String| named_end(&vocab, what, &said).unwrap_or_else(|| refusal(what, notes, &said));
        let parser = match made.map_err(refused)? {
            Made::Parser(parser) => *parser,
            Made::RowTooLong(rule) => return Err(row_too_long(what, &rule, limits.parser.max_items_in_row)),
        };
        let mut fresh = Matcher::new(Ok(parser)).into_cancellable();
        if let Some(said) = fresh.get_error() {
            return Err(refusal(what, notes, &said));
        }
        let n_warnings = (fresh.grammar_warnings().len() + notes) as u32;
        Ok(Grammar { vocab, fresh: std::sync::Mutex::new(fresh), time: limits.time, kind, n_warnings })
    })
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_compile(
    vocab: *const Vocab,
    kind: i32,
    text: *const u8,
    len: usize,
    options: *const Options,
    out: *mut *const Grammar,
    err: *mut CError,
) -> i32 {
    // SAFETY: the caller's promises are passed on; the vocabulary is held by one more reference.
    unsafe {
        guard(err, || {
            clear(out)?;
            borrow(vocab, "vocab")?;
            let limits = limits(&copy_in(options)?)?;
            let text = bytes(text, len, "text")?;
            Arc::increment_strong_count(vocab);
            let vocab = Arc::from_raw(vocab);
            give(out, Arc::new(compile(vocab, kind, text, &limits)?));
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_get_info(grammar: *const Grammar, out: *mut Info, err: *mut CError) -> i32 {
    // SAFETY: passed on.
    unsafe {
        guard(err, || {
            let grammar = borrow(grammar, "grammar")?;
            let n_tokens = grammar.vocab.n_tokens as u32;
            let info = Info { struct_size: 0, kind: grammar.kind, n_tokens, n_warnings: grammar.n_warnings };
            copy_out(info, out)
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// A handle of this library, or NULL.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_free(grammar: *const Grammar) {
    if !grammar.is_null() {
        let _ = caught(|| {
            // SAFETY: gives back what qinfer_grammar_compile gave out.
            drop(unsafe { Arc::from_raw(grammar) });
            Ok(())
        });
    }
}
