//! Grammars: what a session draws is text that fulfils a JSON schema, a regular expression or a Lark grammar. They are a
//! separate library, libqinfer_grammar, which the feature `grammar` links.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::error::{attempt, call, Error, Status};
use crate::handle::{array, read_struct, Owned};
use crate::options::flag;
use crate::{sys, Model, Session, Token};

// SAFETY: a vocabulary and a grammar do not change, and are for many threads at once; a matcher locks itself.
unsafe impl Sync for Owned<sys::qinfer_grammar_vocab> {}
unsafe impl Sync for Owned<sys::qinfer_grammar> {}
unsafe impl Sync for Owned<sys::qinfer_grammar_matcher> {}

/// The version of libqinfer_grammar, as [`version_number`](crate::version_number) has that of the library.
pub fn grammar_version_number() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys::qinfer_grammar_version() }
}

/// The tokens of a model, as grammars need them: made once for each model. Clones are the same one, and keep the model.
#[derive(Clone)]
pub struct Vocabulary {
    inner: Arc<VocabularyInner>,
}

struct VocabularyInner {
    // First, so that it is freed before what it uses.
    handle: Owned<sys::qinfer_grammar_vocab>,
    model: Model,
}

impl Vocabulary {
    /// Takes some 0.3 s and 60 MiB for 150,000 tokens.
    pub fn new(model: &Model) -> Result<Vocabulary, Error> {
        let raw = sys::qinfer_grammar_vocab_options {
            n_tokens: model.info().n_vocab,
            model: model.as_ptr(),
            token_text: Some(sys::qinfer_token_text),
            token_flags: Some(sys::qinfer_token_flags),
            ..sys::sized()
        };
        // SAFETY: model and options live through the call.
        let handle = Owned::create(sys::qinfer_grammar_vocab_free, |out, error| unsafe {
            sys::qinfer_grammar_vocab_create(&raw, out, error)
        })?;
        let model = model.clone();
        Ok(Vocabulary {
            inner: Arc::new(VocabularyInner { handle, model }),
        })
    }

    /// The model whose tokens they are.
    pub fn model(&self) -> &Model {
        &self.inner.model
    }

    /// The handle of the C ABI, which lives as long as any clone, and as what was made from it.
    pub fn as_ptr(&self) -> *const sys::qinfer_grammar_vocab {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vocabulary").field(self.model()).finish()
    }
}

/// How a [`Grammar`] is compiled. The limits are against texts that come from strangers; 0 is the default.
#[derive(Clone, Debug, Default)]
pub struct GrammarOptions {
    /// Of a JSON schema: any white space between the parts of a document, as often as the model likes. Without it a
    /// model that has begun to write white space cannot go on without end.
    pub any_space: bool,
    /// Bytes of the text; 0 = 256 KiB, at most 1 MiB.
    pub max_source_bytes: u64,
    /// Depth of brackets in the text; 0 = 64, at most 120.
    pub max_depth: u32,
    /// States of the lexer; 0 = 50,000, at most 10,000,000.
    pub max_states: u32,
    /// Symbols of the compiled grammar; 0 = 200,000, at most 10,000,000.
    pub max_symbols: u32,
    /// Items of the parser at one place of the text; 0 = 2,000, at most 1,000,000.
    pub max_row_items: u32,
    /// Steps of the compiler of regular expressions; 0 = 1,000,000, at most 10^9.
    pub compile_work: u64,
    /// The same for one mask, which also bounds its time; 0 = 200,000, at most 10^8.
    pub mask_work: u64,
}

impl GrammarOptions {
    fn raw(&self) -> sys::qinfer_grammar_options {
        sys::qinfer_grammar_options {
            flags: flag(self.any_space, sys::QINFER_GRAMMAR_ANY_SPACE),
            max_source_bytes: self.max_source_bytes,
            max_depth: self.max_depth,
            max_states: self.max_states,
            max_symbols: self.max_symbols,
            max_row_items: self.max_row_items,
            compile_work: self.compile_work,
            mask_work: self.mask_work,
            ..sys::sized()
        }
    }
}

/// What a [`Grammar`] was made of.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrammarKind {
    /// A JSON schema.
    JsonSchema,
    /// A regular expression.
    Regex,
    /// A Lark grammar.
    Lark,
}

/// A compiled schema, regular expression or Lark grammar, for any number of sessions of its model, on all threads.
/// Clones are the same one.
///
/// ```
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).unwrap();
/// use qinfer::{GenerateOptions, Grammar, LoadOptions, Model, Session, Vocabulary};
///
/// let model = Model::load("examples/models/tiny-stories", LoadOptions::default())?;
/// let vocabulary = Vocabulary::new(&model)?; // once for each model
/// let grammar = Grammar::regex(&vocabulary, "(Lily|Tom) has [1-9] (dogs|cats)", &Default::default())?;
///
/// let mut session = Session::for_model(&model)?;
/// session.append_text("Once upon a time")?;
/// session.set_grammar(&grammar)?;
/// let text = session.generate(&GenerateOptions::default())?.text;
/// assert!(text.starts_with("Lily has ") || text.starts_with("Tom has "), "{text}");
/// assert!(text.ends_with(" dogs") || text.ends_with(" cats"), "{text}");
/// # Ok::<(), qinfer::Error>(())
/// ```
#[derive(Clone)]
pub struct Grammar {
    inner: Arc<GrammarInner>,
}

struct GrammarInner {
    handle: Owned<sys::qinfer_grammar>,
    vocabulary: Vocabulary,
    kind: GrammarKind,
    warnings: u32,
}

impl Grammar {
    /// JSON that fulfils a schema of draft 2020-12. [`Status::Unsupported`] names a keyword that no grammar enforces, or
    /// a limit; [`Status::Format`] has the byte offset of what is no JSON as its detail, where that is known;
    /// [`Status::InvalidArgument`] is a schema that nothing fulfils.
    pub fn json_schema(
        vocabulary: &Vocabulary,
        schema: &str,
        options: &GrammarOptions,
    ) -> Result<Grammar, Error> {
        Grammar::compile(vocabulary, GrammarKind::JsonSchema, schema, options)
    }

    /// Text of which the whole matches a regular expression, in the syntax of the crate regex. Errors as of
    /// [`Grammar::json_schema`].
    pub fn regex(
        vocabulary: &Vocabulary,
        pattern: &str,
        options: &GrammarOptions,
    ) -> Result<Grammar, Error> {
        Grammar::compile(vocabulary, GrammarKind::Regex, pattern, options)
    }

    /// Text of a Lark grammar: a rule `start`, rules in small letters, terminals in capitals. Errors as of
    /// [`Grammar::json_schema`].
    pub fn lark(
        vocabulary: &Vocabulary,
        text: &str,
        options: &GrammarOptions,
    ) -> Result<Grammar, Error> {
        Grammar::compile(vocabulary, GrammarKind::Lark, text, options)
    }

    fn compile(
        vocabulary: &Vocabulary,
        kind: GrammarKind,
        text: &str,
        options: &GrammarOptions,
    ) -> Result<Grammar, Error> {
        let raw = options.raw();
        let number = match kind {
            GrammarKind::JsonSchema => sys::QINFER_GRAMMAR_JSON_SCHEMA,
            GrammarKind::Regex => sys::QINFER_GRAMMAR_REGEX,
            GrammarKind::Lark => sys::QINFER_GRAMMAR_LARK,
        };
        let (bytes, n) = (array(text.as_bytes()).cast(), text.len());
        // SAFETY: all of it lives through the call.
        let handle = Owned::create(sys::qinfer_grammar_free, |out, error| unsafe {
            let vocabulary = vocabulary.as_ptr();
            sys::qinfer_grammar_compile(vocabulary, number as i32, bytes, n, &raw, out, error)
        })?;
        // SAFETY: the handle lives; out is a struct with its size.
        let info = read_struct::<sys::qinfer_grammar_info>(|out, error| unsafe {
            sys::qinfer_grammar_get_info(handle.as_ptr(), out, error)
        })?;
        Ok(Grammar {
            inner: Arc::new(GrammarInner {
                handle,
                vocabulary: vocabulary.clone(),
                kind,
                warnings: info.n_warnings,
            }),
        })
    }

    /// What it was made of.
    pub fn kind(&self) -> GrammarKind {
        self.inner.kind
    }

    /// The vocabulary that it was compiled for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.inner.vocabulary
    }

    /// How many kinds of documents fulfil a schema and are not drawn, and what else the compiler warns of.
    pub fn warnings(&self) -> u32 {
        self.inner.warnings
    }

    /// The handle of the C ABI, which lives as long as any clone, and as what was made from it.
    pub fn as_ptr(&self) -> *const sys::qinfer_grammar {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar")
            .field("kind", &self.kind())
            .field("warnings", &self.warnings())
            .finish_non_exhaustive()
    }
}

/// Where a [`Matcher`] stands.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatcherState {
    /// The text is complete; it may go on all the same.
    pub accepting: bool,
    /// It cannot go on: only an end token may come.
    pub ended: bool,
    /// [`Matcher::failure`] says why.
    pub failed: bool,
    /// Accepted, end tokens included.
    pub tokens: u64,
}

/// The tokens that may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// Whether the token may come next.
    pub fn allows(&self, token: Token) -> bool {
        let Ok(bit) = usize::try_from(token) else {
            return false;
        };
        let word = self.words.get(bit / 32);
        word.is_some_and(|word| word >> (bit % 32) & 1 != 0)
    }

    /// Bit `t % 32` of word `t / 32` is that of token `t`.
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}

/// Where one text stands in a grammar. [`Session::set_matcher`] joins it to the session that draws the text; a program that
/// samples for itself asks for masks. It may be asked from any thread, also while its session draws.
pub struct Matcher {
    handle: Owned<sys::qinfer_grammar_matcher>,
    grammar: Grammar,
    joined: AtomicBool,
}

impl Matcher {
    /// One at the beginning of the grammar.
    pub fn new(grammar: &Grammar) -> Result<Matcher, Error> {
        // SAFETY: the grammar lives through the call.
        Matcher::adopt(grammar, |out, error| unsafe {
            sys::qinfer_grammar_matcher_create(grammar.as_ptr(), out, error)
        })
    }

    /// One at the same place; from there on the two are independent.
    pub fn try_clone(&self) -> Result<Matcher, Error> {
        // SAFETY: the handle lives.
        Matcher::adopt(&self.grammar, |out, error| unsafe {
            sys::qinfer_grammar_matcher_clone(self.as_ptr(), out, error)
        })
    }

    fn adopt(
        grammar: &Grammar,
        create: impl FnOnce(*mut *mut sys::qinfer_grammar_matcher, *mut sys::qinfer_error) -> i32,
    ) -> Result<Matcher, Error> {
        Ok(Matcher {
            handle: Owned::create(sys::qinfer_grammar_matcher_free, create)?,
            grammar: grammar.clone(),
            joined: AtomicBool::new(false),
        })
    }

    /// The grammar that it stands in.
    pub fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// The tokens that may come next: end tokens where the text is complete. Each of them is accepted.
    /// [`Status::Unsupported`] as of [`Matcher::failure`].
    pub fn mask(&self) -> Result<TokenMask, Error> {
        let mut words = vec![0; self.n_words()];
        let mut n = 0;
        // SAFETY: words has the room that is told.
        call(|error| unsafe {
            let (room, capacity) = (words.as_mut_ptr(), words.len());
            sys::qinfer_grammar_matcher_mask(self.as_ptr(), room, capacity, &mut n, error)
        })?;
        words.truncate(n);
        Ok(TokenMask { words })
    }

    fn n_words(&self) -> usize {
        let n_tokens = self.grammar.vocabulary().model().info().n_vocab;
        n_tokens.div_ceil(32) as usize
    }

    /// Accepts tokens, all or none: [`Status::InvalidArgument`] if one cannot come next; detail: its index. Not for the
    /// tokens that a session draws, which it accepts.
    pub fn accept(&self, tokens: &[Token]) -> Result<(), Error> {
        // SAFETY: the tokens live through the call.
        call(|error| unsafe {
            let (matcher, n) = (self.as_ptr(), tokens.len());
            sys::qinfer_grammar_matcher_accept(matcher, array(tokens), n, error)
        })
    }

    /// Takes back the last tokens; more than were accepted is [`Status::InvalidArgument`].
    pub fn rewind(&self, n_tokens: usize) -> Result<(), Error> {
        // SAFETY: the handle lives.
        call(|error| unsafe { sys::qinfer_grammar_matcher_rewind(self.as_ptr(), n_tokens, error) })
    }

    /// Where it stands.
    pub fn state(&self) -> Result<MatcherState, Error> {
        // SAFETY: the handle lives; out is a struct with its size.
        let info = read_struct::<sys::qinfer_grammar_matcher_info>(|out, error| unsafe {
            sys::qinfer_grammar_matcher_get_info(self.as_ptr(), out, error)
        })?;
        Ok(MatcherState {
            accepting: info.flags & sys::QINFER_GRAMMAR_ACCEPTING != 0,
            ended: info.flags & sys::QINFER_GRAMMAR_ENDED != 0,
            failed: info.flags & sys::QINFER_GRAMMAR_FAILED != 0,
            tokens: info.n_tokens,
        })
    }

    /// Why it works no more: [`Status::Unsupported`] where a limit was reached or no token of the vocabulary goes on. The
    /// call that drew from its session has ended with [`Status::Cancelled`] then.
    pub fn failure(&self) -> Option<Error> {
        // SAFETY: the handle lives.
        attempt(|error| unsafe { sys::qinfer_grammar_matcher_error(self.as_ptr(), error) }).err()
    }

    /// The handle of the C ABI, which lives as long as this.
    pub fn as_ptr(&self) -> *mut sys::qinfer_grammar_matcher {
        self.handle.as_ptr()
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("grammar", &self.grammar)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// What is drawn from now on fulfils the grammar, from its beginning: the session's hook is a new matcher of it, which
    /// this returns and which need not be kept. A fork has one at the same place, and tokens that are taken back are taken
    /// back there, too. [`Session::clear_logits_hook`] ends it. Errors as of [`Session::set_matcher`].
    pub fn set_grammar(&mut self, grammar: &Grammar) -> Result<Matcher, Error> {
        let matcher = Matcher::new(grammar)?;
        self.set_matcher(&matcher)?;
        Ok(matcher)
    }

    /// The same for a matcher that has accepted tokens perhaps: those of a session that was loaded, say, since snapshots
    /// hold no hook. [`Status::InvalidArgument`] where its grammar was compiled for another model,
    /// [`Status::State`] where it is another session's, or was.
    pub fn set_matcher(&mut self, matcher: &Matcher) -> Result<(), Error> {
        let other = matcher.grammar.vocabulary().model();
        if other.as_ptr() != self.model().as_ptr() {
            let message = format!(
                "the grammar was compiled for another model ({other:?}) than that of the session ({:?})",
                self.model()
            );
            return Err(Error::new(Status::InvalidArgument, message, 0));
        }
        if matcher.joined.swap(true, Ordering::Relaxed) {
            let message =
                "the matcher was joined to a session before, expected a new one, or a clone";
            return Err(Error::new(Status::State, message, 0));
        }
        let mut hook = sys::sized::<sys::qinfer_logits_hook>();
        // SAFETY: the handle lives; hook is a struct with its size, and holds what it needs.
        let result = call(|error| unsafe {
            sys::qinfer_grammar_matcher_hook(matcher.as_ptr(), &mut hook, error)
        })
        .and_then(|()| self.install(hook));
        matcher.joined.store(result.is_ok(), Ordering::Relaxed);
        result
    }
}

/// A session under a grammar, if there is one, until this is dropped.
pub(crate) struct Fulfilling<'s> {
    session: &'s mut Session,
    matcher: Option<Matcher>,
}

impl<'s> Fulfilling<'s> {
    pub(crate) fn begin(
        session: &'s mut Session,
        grammar: Option<&Grammar>,
    ) -> Result<Fulfilling<'s>, Error> {
        let matcher = grammar.map(|one| session.set_grammar(one)).transpose()?;
        Ok(Fulfilling { session, matcher })
    }

    /// Why a call was cancelled, if the grammar has done that.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.matcher.as_ref()?.failure()
    }
}

impl Deref for Fulfilling<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for Fulfilling<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for Fulfilling<'_> {
    fn drop(&mut self) {
        if self.matcher.is_some() {
            // Of a session without a handle there is nothing to end.
            let _ = self.session.clear_logits_hook();
        }
    }
}
