//! Matchers: where a text stands in a grammar. One belongs to one session, as the user of its logits hook.

use std::fmt::Display;
use std::os::raw::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use llguidance::Matcher as Engine;

use crate::abi::{borrow, caught, clear, copy_out, give, guard, null_argument, panicked, SizeFirst};
use crate::compile::Grammar;
use crate::error::{CError, Code, Error, Result};
use crate::watch::Watcher;

const ACCEPTING: u32 = 1;
const ENDED: u32 = 2;
const FAILED: u32 = 4;

/// qinfer_grammar_matcher_info.
#[repr(C)]
pub struct Info {
    struct_size: u32,
    flags: u32,
    n_tokens: u64,
}

// SAFETY: integers; the first is the size.
unsafe impl SizeFirst for Info {
    const NAME: &'static str = "qinfer_grammar_matcher_info";
}

/// qinfer_logits_hook.
#[repr(C)]
pub struct Hook {
    struct_size: u32,
    reserved: u32,
    apply: Option<unsafe extern "C" fn(*const c_void, *mut f32, u32, *mut c_void) -> i32>,
    accept: Option<unsafe extern "C" fn(i32, *mut c_void) -> i32>,
    rewind: Option<unsafe extern "C" fn(usize, *mut c_void) -> i32>,
    clone: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    user: *mut c_void,
}

// SAFETY: integers, pointers and optional functions; the first is the size.
unsafe impl SizeFirst for Hook {
    const NAME: &'static str = "qinfer_logits_hook";
}

struct State {
    engine: Engine,
    /// All tokens that were accepted. The engine has the first `fed` of them; the rest are end tokens after its end.
    tokens: Vec<u32>,
    fed: usize,
    failure: Option<Error>,
}

pub struct Matcher {
    grammar: Arc<Grammar>,
    state: Mutex<State>,
    watcher: Watcher,
}

/// A lock is never refused: what a panic has left behind is noticed by the engine, and thrown away by recover().
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_extension() -> Error {
    Error::new(Code::Unsupported, "no token of the vocabulary goes on from here, and the text is not complete")
}

/// What the engine says, without what it appends for its own developers.
fn failure(said: &str, time: Duration) -> Error {
    let said = said.split("\n<").next().unwrap_or(said).trim();
    if let Some(panic) = said.strip_prefix("panic: ") {
        return panicked(panic);
    }
    let limit = match said {
        "NoExtensionBias" => return no_extension(),
        "operation cancelled" => {
            let message = format!(
                "the grammar takes more than {} ms here, which is beyond mask_work of qinfer_grammar_options",
                time.as_millis()
            );
            return Error::new(Code::Unsupported, message);
        }
        _ if said.contains("Current row has") => "max_row_items",
        _ if said.contains("Too many items") || said.contains("fuel") => "mask_work",
        _ if said.contains("states") => "max_states",
        _ => return Error::new(Code::Unsupported, format!("the grammar engine gave up: {said}")),
    };
    Error::new(Code::Unsupported, format!("the text is beyond {limit} of qinfer_grammar_options here: {said}"))
}

impl Matcher {
    fn new(grammar: Arc<Grammar>) -> Self {
        let engine = lock(&grammar.fresh).deep_clone();
        let state = Mutex::new(State { engine, tokens: Vec::new(), fed: 0, failure: None });
        Matcher { grammar, state, watcher: Watcher::default() }
    }

    fn copy(&self) -> Result<Self> {
        let state = lock(&self.state);
        let mut copy = Matcher::new(self.grammar.clone());
        let target = copy.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        target.tokens = state.tokens.clone();
        target.fed = state.fed;
        target.failure = state.failure.clone();
        if target.failure.is_none() {
            target.engine = state.engine.deep_clone();
        }
        drop(state);
        Ok(copy)
    }

    fn is_end(&self, token: u32) -> bool {
        self.grammar.vocab.end_tokens.contains(&token)
    }

    /// Calls the engine, which may take as long as the grammar's limits say.
    fn call<T, E: Display>(
        &self,
        engine: &mut Engine,
        body: impl FnOnce(&mut Engine) -> std::result::Result<T, E>,
    ) -> Result<T> {
        let time = self.grammar.time;
        self.watcher.run(engine.cancellation_handle(), time, || {
            caught(|| body(engine).map_err(|e| failure(&e.to_string(), time)))
        })
    }

    /// What the engine allows, without what it would not accept: tokens without text, which grammars can name by their
    /// numbers, and end tokens where the text is not complete.
    fn allowed(&self, engine: &mut Engine) -> Result<Vec<u32>> {
        let vocab = &self.grammar.vocab;
        if engine.is_stopped() {
            // An engine that has failed says so in compute_mask_or_eos().
            return self.call(engine, |e| e.compute_mask_or_eos()).map(|_| vocab.ends.clone());
        }
        let (mask, complete) = self.call(engine, |e| {
            let mask = e.compute_mask();
            mask.and_then(|mask| e.is_accepting().map(|complete| (mask, complete)))
        })?;
        let ends = if complete { u32::MAX } else { 0 };
        let words = mask.as_slice().iter().zip(&vocab.drawn).zip(&vocab.ends);
        let words: Vec<u32> = words.map(|((mask, drawn), end)| mask & drawn | end & ends).collect();
        if words.iter().all(|&word| word == 0) {
            return Err(no_extension());
        }
        Ok(words)
    }

    /// The tokens that may come next; calls `use_mask` with a bit for each.
    fn mask<T>(&self, use_mask: impl FnOnce(&[u32]) -> T) -> Result<T> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        if state.engine.is_stopped() && self.grammar.vocab.end_tokens.is_empty() {
            let message = "the text is complete, and the vocabulary has no end token that could say so";
            return Err(Error::new(Code::State, message));
        }
        let allowed = self.allowed(&mut state.engine);
        state.failure = allowed.as_ref().err().cloned();
        allowed.map(|mask| use_mask(&mask))
    }

    fn accept(&self, token: u32) -> Result<()> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        let refused = || Error::new(Code::InvalidArgument, format!("token {token} cannot come next in this grammar"));
        let vocab = &self.grammar.vocab;
        if !self.is_end(token) && !has(&vocab.drawn, token) {
            return Err(refused());
        }
        if state.engine.is_stopped() {
            if !self.is_end(token) {
                return Err(refused());
            }
            state.tokens.push(token);
            return Ok(());
        }
        let consumed = self.call(&mut state.engine, |e| match e.validate_tokens(&[token]) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(e.consume_tokens(&[token]).map_err(|e| e.to_string()))),
            Err(error) => Err(error),
        });
        match consumed {
            Ok(None) => return Err(refused()),
            Ok(Some(consumed)) => state.failure = consumed.err().map(|said| failure(&said, self.grammar.time)),
            Err(error) => {
                state.failure = Some(error.clone());
                return Err(error);
            }
        }
        match &state.failure {
            Some(error) if error.code == Code::Internal => Err(error.clone()),
            // A token that masks offer is accepted. Where it leads beyond a limit, the text cannot go on from there.
            _ => {
                state.tokens.push(token);
                state.fed += 1;
                Ok(())
            }
        }
    }

    fn rewind(&self, n: usize) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(left) = state.tokens.len().checked_sub(n) else {
            let message = format!("{n} tokens to take back, and {} were accepted", state.tokens.len());
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let back = state.fed.saturating_sub(left);
        if state.failure.is_none() {
            let rolled = caught(|| state.engine.rollback(back).map_err(|e| failure(&e.to_string(), self.grammar.time)));
            if rolled.is_ok() {
                state.tokens.truncate(left);
                state.fed = state.fed.min(left);
                return Ok(());
            }
        }
        self.recover(&mut state, left)
    }

    /// A new engine is fed the first tokens: after a failure, and where the engine cannot go back.
    fn recover(&self, state: &mut State, left: usize) -> Result<()> {
        let fed = state.fed.min(left);
        let mut engine = lock(&self.grammar.fresh).deep_clone();
        for (n, &token) in state.tokens[..fed].iter().enumerate() {
            let error = match self.call(&mut engine, |e| e.try_consume_tokens(&[token])) {
                Ok(0) => Error::new(Code::Internal, format!("token {n} of those that were accepted is now refused")),
                Ok(_) => continue,
                Err(error) => error,
            };
            state.failure = Some(error.clone());
            return Err(error);
        }
        state.engine = engine;
        state.tokens.truncate(left);
        state.fed = fed;
        state.failure = None;
        Ok(())
    }

    fn info(&self) -> Info {
        let mut state = lock(&self.state);
        let mut flags = if state.failure.is_some() { FAILED } else { 0 };
        if flags == 0 {
            let accepting =
                state.engine.is_stopped() || self.call(&mut state.engine, |e| e.is_accepting()).unwrap_or(false);
            flags = if accepting { ACCEPTING } else { 0 } | if state.engine.is_stopped() { ENDED } else { 0 };
        }
        Info { struct_size: 0, flags, n_tokens: state.tokens.len() as u64 }
    }
}

fn has(bits: &[u32], token: u32) -> bool {
    bits.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 != 0)
}

/// Bans what the mask does not allow. `logits` has one element for each token.
fn ban(mask: &[u32], logits: &mut [f32]) {
    for (group, &bits) in logits.chunks_mut(32).zip(mask) {
        if bits == 0 {
            group.fill(f32::NEG_INFINITY);
        } else if bits != u32::MAX {
            for (bit, logit) in group.iter_mut().enumerate() {
                if bits >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}

unsafe extern "C" fn hook_apply(_session: *const c_void, logits: *mut f32, n_vocab: u32, user: *mut c_void) -> i32 {
    let done = caught(|| {
        // SAFETY: the user of a hook of this library, and n_vocab logits.
        let (matcher, logits) = unsafe {
            (borrow(user as *const Matcher, "user")?, std::slice::from_raw_parts_mut(logits, n_vocab as usize))
        };
        let n_tokens = matcher.grammar.vocab.n_tokens;
        if n_tokens != logits.len() {
            let message = format!("the vocabulary has {n_tokens} tokens, and the model's logits are {n_vocab}");
            let error = Error::new(Code::InvalidArgument, message);
            lock(&matcher.state).failure = Some(error.clone());
            return Err(error);
        }
        matcher.mask(|mask| ban(mask, logits))
    });
    i32::from(done.is_err())
}

unsafe extern "C" fn hook_accept(token: i32, user: *mut c_void) -> i32 {
    // SAFETY: the user of a hook of this library.
    let done = caught(|| unsafe { borrow(user as *const Matcher, "user") }?.accept(token as u32));
    i32::from(done.is_err())
}

unsafe extern "C" fn hook_rewind(n_tokens: usize, user: *mut c_void) -> i32 {
    // SAFETY: the user of a hook of this library.
    let done = caught(|| unsafe { borrow(user as *const Matcher, "user") }?.rewind(n_tokens));
    i32::from(done.is_err())
}

unsafe extern "C" fn hook_clone(user: *mut c_void, out: *mut *mut c_void) -> i32 {
    let done = caught(|| {
        // SAFETY: the user of a hook of this library.
        let copy = unsafe { borrow(user as *const Matcher, "user") }?.copy()?;
        // SAFETY: the session's.
        unsafe { out.write(Arc::into_raw(Arc::new(copy)) as *mut c_void) };
        Ok(())
    });
    i32::from(done.is_err())
}

unsafe extern "C" fn hook_release(user: *mut c_void) {
    // SAFETY: a hook holds a reference of its own.
    unsafe { qinfer_grammar_matcher_free(user as *const Matcher) };
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_create(
    grammar: *const Grammar,
    out: *mut *const Matcher,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on; the grammar is held by one more reference.
    unsafe {
        guard(err, || {
            clear(out)?;
            borrow(grammar, "grammar")?;
            Arc::increment_strong_count(grammar);
            give(out, Arc::new(Matcher::new(Arc::from_raw(grammar))));
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_clone(
    matcher: *const Matcher,
    out: *mut *const Matcher,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        guard(err, || {
            clear(out)?;
            give(out, Arc::new(borrow(matcher, "matcher")?.copy()?));
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// A handle of this library, or NULL.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_free(matcher: *const Matcher) {
    if !matcher.is_null() {
        let _ = caught(|| {
            // SAFETY: gives back a reference that was given out.
            drop(unsafe { Arc::from_raw(matcher) });
            Ok(())
        });
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_hook(
    matcher: *const Matcher,
    out: *mut Hook,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on; the hook's user is one more reference.
    unsafe {
        guard(err, || {
            borrow(matcher, "matcher")?;
            let stated = borrow(out as *const Hook, "out")?.struct_size as usize;
            if stated < std::mem::size_of::<Hook>() {
                let message = format!("qinfer_logits_hook.struct_size is {stated}, and what is set needs all of it");
                return Err(Error::new(Code::InvalidArgument, message));
            }
            let hook = Hook {
                struct_size: 0,
                reserved: 0,
                apply: Some(hook_apply),
                accept: Some(hook_accept),
                rewind: Some(hook_rewind),
                clone: Some(hook_clone),
                release: Some(hook_release),
                user: matcher as *mut c_void,
            };
            copy_out(hook, out)?;
            Arc::increment_strong_count(matcher);
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_mask(
    matcher: *const Matcher,
    words: *mut u32,
    capacity: usize,
    out_n: *mut usize,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        guard(err, || {
            let matcher = borrow(matcher, "matcher")?;
            let n_tokens = matcher.grammar.vocab.n_tokens;
            let n = n_tokens.div_ceil(32);
            *out_n.as_mut().ok_or_else(|| null_argument("out_n"))? = n;
            if capacity < n || words.is_null() {
                let message = format!("the mask has {n} words, and there is room for {capacity}");
                return Err(Error::at(Code::BufferTooSmall, n as i64, message));
            }
            let words = std::slice::from_raw_parts_mut(words, n);
            matcher.mask(|mask| {
                words.copy_from_slice(mask);
            })
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_accept(
    matcher: *const Matcher,
    tokens: *const i32,
    n: usize,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        guard(err, || {
            let matcher = borrow(matcher, "matcher")?;
            if tokens.is_null() && n != 0 {
                return Err(null_argument("tokens"));
            }
            for index in 0..n {
                let token = tokens.add(index).read() as u32;
                if let Err(mut error) = matcher.accept(token) {
                    matcher.rewind(index)?;
                    error.detail = index as i64;
                    return Err(error);
                }
            }
            Ok(())
        })
    }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_rewind(matcher: *const Matcher, n: usize, err: *mut CError) -> i32 {
    // SAFETY: passed on.
    unsafe { guard(err, || borrow(matcher, "matcher")?.rewind(n)) }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_get_info(
    matcher: *const Matcher,
    out: *mut Info,
    err: *mut CError,
) -> i32 {
    // SAFETY: passed on.
    unsafe { guard(err, || copy_out(borrow(matcher, "matcher")?.info(), out)) }
}

/// See qinfer_grammar.h.
///
/// # Safety
/// As qinfer_grammar.h says.
#[no_mangle]
pub unsafe extern "C" fn qinfer_grammar_matcher_error(matcher: *const Matcher, err: *mut CError) -> i32 {
    // SAFETY: passed on.
    unsafe {
        guard(err, || match &lock(&borrow(matcher, "matcher")?.state).failure {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        })
    }
}

/// See qinfer_grammar.h.
#[no_mangle]
pub extern "C" fn qinfer_grammar_version() -> u32 {
    200
}
