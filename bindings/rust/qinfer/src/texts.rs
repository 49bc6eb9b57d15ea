//! Texts as vectors and scores: the prompts of a model, the tokens of a text, and pairs of texts.

use std::collections::BTreeMap;
use std::ffi::CString;

use crate::error::{call, Error};
use crate::handle::{array, optional_text, pointer_of, read_array, read_text, text_at};
use crate::options::flag;
use crate::session::{Pooling, Session};
use crate::{sys, Model, Token};

/// How a text becomes tokens.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingTextOptions {
    /// The name of one of the model's prompts, which goes before the text.
    pub prompt: Option<String>,
    /// This goes before it instead.
    pub prompt_text: Option<String>,
    /// A text that is too long is cut, instead of [`Status::ContextFull`](crate::Status::ContextFull).
    pub truncate: bool,
    /// `<|im_end|>` in the text becomes one token.
    pub parse_special: bool,
    /// At most; 0 = what the model takes.
    pub max_tokens: u32,
}

/// What an embedding is like.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingOptions {
    /// Which hidden state it is made of.
    pub pooling: Pooling,
    /// Not of length 1, but as pooling and the layers after it give it.
    pub unscaled: bool,
    /// The first so many values alone; 0 = all.
    pub dims: u32,
}

/// How a pair of texts is written and what its score is; the default is what the model's files say.
#[derive(Clone, Debug, Default)]
pub struct ScoreOptions {
    /// "qwen3-reranker", where the files do not say how a pair is written.
    pub template: Option<String>,
    /// Another one, in which `{instruction}`, `{query}` and, last, `{document}` stand for texts.
    pub template_text: Option<String>,
    /// What makes a document a good one, in words.
    pub instruction: Option<String>,
    /// The token whose logit makes the score.
    pub yes: Option<String>,
    /// The token whose logit is subtracted.
    pub no: Option<String>,
    /// A pair that is too long is cut, instead of [`Status::ContextFull`](crate::Status::ContextFull).
    pub truncate: bool,
    /// The score itself, any number.
    pub raw: bool,
    /// Of a pair; 0 = what model and session take.
    pub max_tokens: u32,
}

/// The options as C has them, and the texts that they point to.
struct RawScore {
    raw: sys::qinfer_score_options,
    _texts: [Option<CString>; 5],
}

impl ScoreOptions {
    fn raw(&self) -> Result<RawScore, Error> {
        let texts = [
            optional_text(self.template.as_deref(), "template")?,
            optional_text(self.template_text.as_deref(), "template_text")?,
            optional_text(self.instruction.as_deref(), "instruction")?,
            optional_text(self.yes.as_deref(), "yes")?,
            optional_text(self.no.as_deref(), "no")?,
        ];
        let raw = sys::qinfer_score_options {
            flags: flag(self.truncate, sys::QINFER_SCORE_TRUNCATE)
                | flag(self.raw, sys::QINFER_SCORE_RAW),
            template_name: pointer_of(&texts[0]),
            template_text: pointer_of(&texts[1]),
            instruction: pointer_of(&texts[2]),
            yes: pointer_of(&texts[3]),
            no: pointer_of(&texts[4]),
            max_tokens: self.max_tokens,
            ..sys::sized()
        };
        Ok(RawScore { raw, _texts: texts })
    }
}

impl Model {
    /// What the files have to go before a text, by what the text is: "query", "document".
    pub fn prompts(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut prompts = BTreeMap::new();
        for index in 0.. {
            // SAFETY: the names live as long as the model.
            let name = unsafe { sys::qinfer_model_prompt_name(self.as_ptr(), index) };
            if name.is_null() {
                break;
            }
            // SAFETY: text has the room that is told.
            let text = read_text(256, |text, capacity, n, error| unsafe {
                sys::qinfer_model_prompt(self.as_ptr(), name, text, capacity, n, error)
            })?;
            prompts.insert(unsafe { text_at(name) }.into_owned(), text);
        }
        Ok(prompts)
    }

    /// The name of the prompt that the files call the default. Nothing goes before a text unless it is asked for.
    pub fn default_prompt(&self) -> Option<String> {
        // SAFETY: the name lives as long as the model.
        let name = unsafe { sys::qinfer_model_default_prompt(self.as_ptr()) };
        (!name.is_null()).then(|| unsafe { text_at(name) }.into_owned())
    }

    /// The tokens that the embedding of a text is made of, and how many were cut off.
    pub fn embedding_tokens(
        &self,
        text: &str,
        options: &EmbeddingTextOptions,
    ) -> Result<(Vec<Token>, u64), Error> {
        let name = optional_text(options.prompt.as_deref(), "prompt")?;
        let prompt = optional_text(options.prompt_text.as_deref(), "prompt_text")?;
        let raw = sys::qinfer_embedding_text_options {
            flags: flag(options.truncate, sys::QINFER_EMBED_TRUNCATE)
                | flag(options.parse_special, sys::QINFER_EMBED_PARSE_SPECIAL),
            prompt_name: pointer_of(&name),
            prompt: pointer_of(&prompt),
            max_tokens: options.max_tokens,
            ..sys::sized()
        };
        let mut cut = 0;
        // SAFETY: text and options live through the call, and tokens has the room that is told.
        let tokens = read_array(text.len() / 2 + 16, |tokens, capacity, n, error| unsafe {
            let (model, data) = (self.as_ptr(), text.as_ptr().cast());
            sys::qinfer_embedding_tokenize(
                model,
                data,
                text.len(),
                &raw,
                tokens,
                capacity,
                n,
                &mut cut,
                error,
            )
        })?;
        Ok((tokens, cut))
    }
}

impl Session {
    /// The session's embedding: `embedding_dims` values, or the first of them.
    pub fn embedding_with(&self, options: &EmbeddingOptions) -> Result<Vec<f32>, Error> {
        let raw = sys::qinfer_embedding_options {
            flags: flag(options.unscaled, sys::QINFER_EMBEDDING_UNSCALED),
            pooling: options.pooling.raw(),
            dims: options.dims,
            ..sys::sized()
        };
        let room = self.model().info().embedding_dims as usize;
        // SAFETY: values has the room that is told.
        read_array(room, |values, capacity, n, error| unsafe {
            sys::qinfer_session_embedding_with(self.as_ptr(), &raw, values, capacity, n, error)
        })
    }

    /// Makes a query and a document the session's tokens, for [`Session::score`]; returns how many of the document's
    /// were cut off.
    pub fn set_pair(
        &mut self,
        query: &str,
        document: &str,
        options: &ScoreOptions,
    ) -> Result<u64, Error> {
        let with = options.raw()?;
        let mut cut = 0;
        // SAFETY: the texts and the options live through the call.
        call(|error| unsafe {
            let session = self.as_mut_ptr();
            let (first, second) = (query.as_bytes(), document.as_bytes());
            sys::qinfer_session_set_pair(
                session,
                array(first).cast(),
                first.len(),
                array(second).cast(),
                second.len(),
                &with.raw,
                &mut cut,
                error,
            )
        })?;
        Ok(cut)
    }

    /// How well the document answers the query, once both are evaluated.
    pub fn score(&self, options: &ScoreOptions) -> Result<f32, Error> {
        let with = options.raw()?;
        let mut score = 0.0;
        // SAFETY: the options live through the call.
        call(|error| unsafe {
            sys::qinfer_session_score(self.as_ptr(), &with.raw, &mut score, error)
        })?;
        Ok(score)
    }
}
