//! Sessions: tokens, evaluation, sampling, and what the logits say.

use std::fmt;
use std::ptr;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::{call, Error};
use crate::handle::{array, read_array, read_struct, slice_at, Owned};
use crate::options::flag;
use crate::{
    hook, sys, Cancel, KvCache, KvCacheOptions, LogitsHook, Metrics, Model, SamplerOptions,
    SessionInfo, SessionMemory, Token, TokenizeOptions,
};

/// How a [`Session`] is made.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Tokens that it may hold; 0 = the model's context.
    pub max_tokens: u32,
    /// Rows kept for [`Session::logits`]; 0 = 1.
    pub max_logits: u32,
    /// Tokens that are guessed ahead, at most 16: text that repeats earlier text is faster, and the same; 0 = none.
    pub max_draft: u32,
    /// Keep hidden states for [`Session::embedding`]. Encoders always do.
    pub embeddings: bool,
}

impl SessionOptions {
    pub(crate) fn raw(&self) -> sys::qinfer_session_options {
        sys::qinfer_session_options {
            flags: flag(self.embeddings, sys::QINFER_SESSION_EMBEDDINGS),
            max_tokens: self.max_tokens,
            max_logits: self.max_logits,
            max_draft: self.max_draft,
            ..sys::sized()
        }
    }
}

/// How sessions are evaluated.
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// Tokens at most; 0 = all pending ones.
    pub max_tokens: u32,
    /// Keep logits for the last n tokens of each session; 0 = 1.
    pub keep_logits: u32,
    /// Keep none, and compute none: for all chunks of a prompt but the last.
    pub no_logits: bool,
    /// Looked at between layers.
    pub cancel: Option<Cancel>,
}

/// Which hidden state an embedding is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// What the model's files say.
    #[default]
    Default,
    /// The last token's.
    Last,
    /// The mean of all tokens.
    Mean,
    /// The first token's.
    First,
}

impl Pooling {
    /// As C has it.
    pub(crate) fn raw(self) -> i32 {
        (match self {
            Pooling::Default => sys::QINFER_POOL_DEFAULT,
            Pooling::Last => sys::QINFER_POOL_LAST,
            Pooling::Mean => sys::QINFER_POOL_MEAN,
            Pooling::First => sys::QINFER_POOL_FIRST,
        }) as i32
    }
}

/// A list of tokens, a prefix of which is evaluated while the rest is pending, and its sampler. It may move between
/// threads, and is used by one at a time.
pub struct Session {
    // Absent while a stream or an engine has it: then the library says that it was given NULL.
    handle: Option<Owned<sys::qinfer_session>>,
    cache: KvCache,
}

impl Session {
    /// A session of a cache. Without a sampler it is greedy.
    pub fn new(cache: &KvCache, options: &SessionOptions) -> Result<Session, Error> {
        let raw = options.raw();
        // SAFETY: cache and options live through the call.
        Session::adopt(cache, |out, error| unsafe {
            sys::qinfer_session_create(cache.as_ptr(), &raw, out, error)
        })
    }

    /// A session with its own cache, for the model's whole context.
    pub fn for_model(model: &Model) -> Result<Session, Error> {
        let cache = KvCache::new(model, &KvCacheOptions::default())?;
        Session::new(&cache, &SessionOptions::default())
    }

    pub(crate) fn adopt(
        cache: &KvCache,
        create: impl FnOnce(*mut *mut sys::qinfer_session, *mut sys::qinfer_error) -> i32,
    ) -> Result<Session, Error> {
        Ok(Session {
            handle: Some(Owned::create(sys::qinfer_session_free, create)?),
            cache: cache.clone(),
        })
    }

    /// Takes the session out of this one, until it is put back.
    pub(crate) fn take(&mut self) -> Session {
        Session {
            handle: self.handle.take(),
            cache: self.cache.clone(),
        }
    }

    /// The handle of the C ABI, which lives as long as the session; NULL where a stream that was forgotten
    /// (`std::mem::forget`) has it, or an engine has dropped it.
    pub fn as_ptr(&self) -> *const sys::qinfer_session {
        self.handle
            .as_ref()
            .map_or(ptr::null(), |handle| handle.as_ptr())
    }

    /// The same for calls that change the session.
    pub fn as_mut_ptr(&mut self) -> *mut sys::qinfer_session {
        self.handle
            .as_ref()
            .map_or(ptr::null_mut(), |handle| handle.as_ptr())
    }

    /// The cache that holds its keys and values.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// The model that it runs on.
    pub fn model(&self) -> &Model {
        self.cache.model()
    }

    /// Adds pending tokens, computes nothing.
    pub fn append(&mut self, tokens: &[Token]) -> Result<(), Error> {
        // SAFETY: the tokens live through the call.
        call(|error| unsafe {
            sys::qinfer_session_append(self.as_mut_ptr(), array(tokens), tokens.len(), error)
        })
    }

    /// Adds the tokens of a text; in an empty session with what the tokenizer puts around a text.
    pub fn append_text(&mut self, text: &str) -> Result<(), Error> {
        let options = TokenizeOptions {
            add_special: self.is_empty(),
            ..Default::default()
        };
        let tokens = self.model().tokenize_with(text, &options)?;
        self.append(&tokens)
    }

    /// Makes these the session's tokens. What they have in common with those that it holds, from the first one on,
    /// stays as it is; returns how many tokens that is.
    pub fn set_tokens(&mut self, tokens: &[Token]) -> Result<usize, Error> {
        let mut kept = 0;
        // SAFETY: the tokens live through the call.
        call(|error| unsafe {
            let session = self.as_mut_ptr();
            sys::qinfer_session_set_tokens(session, array(tokens), tokens.len(), &mut kept, error)
        })?;
        Ok(kept)
    }

    /// All tokens, evaluated and pending.
    pub fn tokens(&self) -> Result<Vec<Token>, Error> {
        // SAFETY: tokens has the room that is told.
        read_array(self.len(), |tokens, capacity, n, error| unsafe {
            sys::qinfer_session_get_tokens(self.as_ptr(), tokens, capacity, n, error)
        })
    }

    /// Tokens, evaluated and pending.
    pub fn len(&self) -> usize {
        // SAFETY: the handle lives, or is NULL, which has none.
        unsafe { sys::qinfer_session_length(self.as_ptr()) }
    }

    /// Whether it holds no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that are not evaluated; 0: the logits are ready.
    pub fn pending(&self) -> usize {
        // SAFETY: as in len().
        unsafe { sys::qinfer_session_pending(self.as_ptr()) }
    }

    /// Keeps the first `n_tokens`. If that drops evaluated tokens, the last one kept becomes pending again.
    pub fn truncate(&mut self, n_tokens: usize) -> Result<(), Error> {
        // SAFETY: the handle lives.
        call(|error| unsafe { sys::qinfer_session_truncate(self.as_mut_ptr(), n_tokens, error) })
    }

    /// A copy that shares memory until one side writes: tokens, logits, sampler, and a clone of the hook where it has
    /// one.
    pub fn fork(&self) -> Result<Session, Error> {
        // SAFETY: the handle lives.
        Session::adopt(&self.cache, |out, error| unsafe {
            sys::qinfer_session_fork(self.as_ptr(), out, error)
        })
    }

    /// Replaces the sampler, and reseeds.
    pub fn set_sampler(&mut self, options: &SamplerOptions) -> Result<(), Error> {
        let raw = options.raw();
        // SAFETY: the options live through the call.
        call(|error| unsafe { sys::qinfer_session_set_sampler(self.as_mut_ptr(), &raw, error) })
    }

    /// Replaces the texts that no repetition of DRY reaches over, at most 16 of 1 to 40 bytes; none: no text. Without
    /// this call they are a line feed, a colon, a double quote and an asterisk.
    pub fn set_dry_breakers(&mut self, breakers: &[&str]) -> Result<(), Error> {
        let texts: Vec<*const std::ffi::c_char> =
            breakers.iter().map(|text| text.as_ptr().cast()).collect();
        let lens: Vec<usize> = breakers.iter().map(|text| text.len()).collect();
        // SAFETY: the arrays and the texts live through the call, and the arrays are of one length.
        call(|error| unsafe {
            sys::qinfer_session_set_dry_breakers(
                self.as_mut_ptr(),
                array(&texts),
                array(&lens),
                texts.len(),
                error,
            )
        })
    }

    /// Adds to the logits of tokens when sampling; negative infinity bans one. Replaces the previous list.
    pub fn set_bias(&mut self, bias: &[(Token, f32)]) -> Result<(), Error> {
        let (tokens, values): (Vec<Token>, Vec<f32>) = bias.iter().copied().unzip();
        // SAFETY: the arrays live through the call, and are of one length.
        call(|error| unsafe {
            sys::qinfer_session_set_bias(
                self.as_mut_ptr(),
                array(&tokens),
                array(&values),
                tokens.len(),
                error,
            )
        })
    }

    /// Code between logits and sampler from now on, instead of a hook or grammar that it has. Forks have no hook.
    pub fn set_logits_hook<H: LogitsHook + 'static>(&mut self, hook: H) -> Result<(), Error> {
        self.install(hook::raw(hook))
    }

    /// The same; a fork has a clone of the hook.
    pub fn set_forkable_logits_hook<H>(&mut self, hook: H) -> Result<(), Error>
    where
        H: LogitsHook + Clone + 'static,
    {
        self.install(hook::raw_clone(hook))
    }

    pub(crate) fn install(&mut self, raw: sys::qinfer_logits_hook) -> Result<(), Error> {
        // SAFETY: the library takes the user over, and releases it when it is done.
        let result = call(|error| unsafe {
            sys::qinfer_session_set_logits_hook(self.as_mut_ptr(), &raw, error)
        });
        if let (Err(_), Some(release)) = (&result, raw.release) {
            // SAFETY: after a failure the user still is ours.
            unsafe { release(raw.user) };
            crate::panics::resume();
        }
        result
    }

    /// No hook from now on, and no grammar.
    pub fn clear_logits_hook(&mut self) -> Result<(), Error> {
        // SAFETY: the handle lives.
        call(|error| unsafe {
            sys::qinfer_session_set_logits_hook(self.as_mut_ptr(), ptr::null(), error)
        })
    }

    /// Evaluates the pending tokens.
    pub fn evaluate(&mut self) -> Result<(), Error> {
        self.evaluate_with(&EvalOptions::default())
    }

    /// The same with options.
    pub fn evaluate_with(&mut self, options: &EvalOptions) -> Result<(), Error> {
        evaluate(&mut [self], options)
    }

    /// Draws a token from the last logits and appends it as pending.
    pub fn sample(&mut self) -> Result<Token, Error> {
        let mut token = 0;
        // SAFETY: the handle lives; out is the call's.
        call(|error| unsafe { sys::qinfer_session_sample(self.as_mut_ptr(), &mut token, error) })?;
        Ok(token)
    }

    /// The logits of the last evaluated token, or of the one `back` earlier, one for each token of the vocabulary.
    /// They are the library's memory, borrowed until the session changes. `None` if they are not kept.
    ///
    /// ```compile_fail
    /// # fn example(session: &mut qinfer::Session) {
    /// let logits = session.logits(0);
    /// session.evaluate(); // ends the borrow
    /// println!("{logits:?}");
    /// # }
    /// ```
    pub fn logits(&self, back: usize) -> Option<&[f32]> {
        // SAFETY: the row stays as it is until a call that takes the session mutably.
        unsafe {
            let row = sys::qinfer_session_logits(self.as_ptr(), back);
            (!row.is_null()).then(|| slice_at(row, self.model().info().n_vocab as usize))
        }
    }

    /// The same row copied into the caller's room; returns how many values there are.
    pub fn copy_logits(&self, back: usize, values: &mut [f32]) -> Result<usize, Error> {
        let mut n = 0;
        let (room, capacity) = (values.as_mut_ptr(), values.len());
        // SAFETY: values has the room that is told.
        call(|error| unsafe {
            sys::qinfer_session_copy_logits(self.as_ptr(), back, room, capacity, &mut n, error)
        })?;
        Ok(n)
    }

    /// The natural logarithms of the probabilities of tokens under the model, for that row.
    pub fn logprobs(&self, back: usize, tokens: &[Token]) -> Result<Vec<f64>, Error> {
        let mut values = vec![0.0; tokens.len()];
        // SAFETY: both arrays are of one length.
        call(|error| unsafe {
            sys::qinfer_session_logprobs(
                self.as_ptr(),
                back,
                array(tokens),
                tokens.len(),
                values.as_mut_ptr(),
                error,
            )
        })?;
        Ok(values)
    }

    /// The `n` most likely tokens of that row and their log probabilities, in descending order.
    pub fn top_logprobs(&self, back: usize, n: usize) -> Result<Vec<(Token, f64)>, Error> {
        // The library refuses more than the vocabulary, and then writes nothing.
        let room = n.min(self.model().info().n_vocab as usize);
        let (mut tokens, mut values) = (vec![0; room], vec![0.0; room]);
        // SAFETY: the arrays have room for n, where n is accepted.
        call(|error| unsafe {
            let (tokens, values) = (tokens.as_mut_ptr(), values.as_mut_ptr());
            sys::qinfer_session_top_logprobs(self.as_ptr(), back, tokens, values, n, error)
        })?;
        Ok(tokens.into_iter().zip(values).collect())
    }

    /// The session's embedding, of length 1: `embedding_dims` values.
    pub fn embedding(&self, pooling: Pooling) -> Result<Vec<f32>, Error> {
        let room = self.model().info().embedding_dims as usize;
        // SAFETY: values has the room that is told.
        read_array(room, |values, capacity, n, error| unsafe {
            sys::qinfer_session_embedding(self.as_ptr(), pooling.raw(), values, capacity, n, error)
        })
    }

    /// What it holds and keeps.
    pub fn info(&self) -> Result<SessionInfo, Error> {
        // SAFETY: out is a struct with its size.
        read_struct::<sys::qinfer_session_info>(|out, error| unsafe {
            sys::qinfer_session_get_info(self.as_ptr(), out, error)
        })
        .map(|info| SessionInfo::from(&info))
    }

    /// Bytes that it holds.
    pub fn memory(&self) -> Result<SessionMemory, Error> {
        // SAFETY: as in info().
        read_struct::<sys::qinfer_session_memory>(|out, error| unsafe {
            sys::qinfer_session_get_memory(self.as_ptr(), out, error)
        })
        .map(|memory| SessionMemory::from(&memory))
    }

    /// What has been computed for it.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        // SAFETY: as in info().
        read_struct::<sys::qinfer_metrics>(|out, error| unsafe {
            sys::qinfer_session_get_metrics(self.as_ptr(), out, error)
        })
        .map(|metrics| Metrics::from(&metrics))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("tokens", &self.len())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// Evaluates the pending tokens of sessions of one cache as one batch.
pub fn evaluate(sessions: &mut [&mut Session], options: &EvalOptions) -> Result<(), Error> {
    let handles: Vec<_> = sessions
        .iter_mut()
        .map(|session| session.as_mut_ptr())
        .collect();
    let raw = sys::qinfer_eval_options {
        max_tokens: options.max_tokens,
        keep_logits: options.keep_logits,
        flags: flag(options.no_logits, sys::QINFER_EVAL_NO_LOGITS),
        cancel: cancel_pointer(&options.cancel),
        ..sys::sized()
    };
    // SAFETY: handles and options live through the call.
    call(|error| unsafe { sys::qinfer_eval(handles.as_ptr(), handles.len(), &raw, error) })
}
