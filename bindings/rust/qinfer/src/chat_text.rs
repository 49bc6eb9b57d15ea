//! Chat templates: what a conversation becomes as text and as tokens. A conversation is JSON text, an object of the
//! template's variables: `{"messages": [{"role": "user", "content": "Hi"}], "tools": [...]}`.

use std::ffi::CString;
use std::ops::Range;

use crate::cancel::pointer_of as cancel_pointer;
use crate::error::{call, Error, Status};
use crate::handle::{fits, grow, optional_text, pointer_of, read_array, read_text, text_at};
use crate::options::flag;
use crate::{sys, Cancel, Model, Token};

/// How a conversation is rendered. By default with the model's template, up to where the reply begins.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// The text ends where the reply begins, unless the conversation says `add_generation_prompt` itself.
    pub generation_prompt: bool,
    /// What messages say is searched for no added tokens at all.
    pub plain_content: bool,
    /// One of the model's templates; `None` = "tool_use" if there is one and the conversation has tools, otherwise
    /// "default".
    pub template_name: Option<String>,
    /// A template instead of the model's.
    pub template_text: Option<String>,
    /// What the template is told the date is: `2026-11-22` or `2026-11-22T15:04:05`; `None` = the system's clock.
    pub now: Option<String>,
    /// Ends the call.
    pub cancel: Option<Cancel>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        ChatOptions {
            generation_prompt: true,
            plain_content: false,
            template_name: None,
            template_text: None,
            now: None,
            cancel: None,
        }
    }
}

/// The same as the library reads it.
pub(crate) struct RawChat {
    pub(crate) options: sys::qinfer_chat_options,
    _texts: [Option<CString>; 3],
}

impl ChatOptions {
    pub(crate) fn raw(&self) -> Result<RawChat, Error> {
        let name = optional_text(self.template_name.as_deref(), "template_name")?;
        let text = optional_text(self.template_text.as_deref(), "template_text")?;
        let now = optional_text(self.now.as_deref(), "now")?;
        let options = sys::qinfer_chat_options {
            flags: flag(self.generation_prompt, sys::QINFER_CHAT_GENERATION_PROMPT)
                | flag(self.plain_content, sys::QINFER_CHAT_PLAIN_CONTENT),
            template_name: pointer_of(&name),
            template_text: pointer_of(&text),
            now: pointer_of(&now),
            cancel: cancel_pointer(&self.cancel),
            ..sys::sized()
        };
        Ok(RawChat {
            options,
            _texts: [name, text, now],
        })
    }
}

/// A rendered conversation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The prompt.
    pub text: String,
    /// The bytes of it that came from the conversation, for
    /// [`TokenizeOptions::content`](crate::TokenizeOptions::content).
    pub content: Vec<Range<usize>>,
}

impl Model {
    /// The template as it is written; `None`: the one called "default".
    pub fn chat_template(&self, name: Option<&str>) -> Result<String, Error> {
        let name = optional_text(name, "name")?;
        // SAFETY: the name lives through the call, and text has the room that is told.
        read_text(4096, |text, capacity, n, error| unsafe {
            let name = pointer_of(&name);
            sys::qinfer_model_chat_template(self.as_ptr(), name, text, capacity, n, error)
        })
    }

    /// The names of its chat templates, sorted.
    pub fn chat_template_names(&self) -> Vec<String> {
        (0..)
            // SAFETY: the names live as long as the model.
            .map(|index| unsafe { sys::qinfer_model_chat_template_name(self.as_ptr(), index) })
            .take_while(|name| !name.is_null())
            .map(|name| unsafe { text_at(name) }.into_owned())
            .collect()
    }

    /// The text that the template makes of a conversation, which is JSON text.
    pub fn render_chat(
        &self,
        conversation: &str,
        options: &ChatOptions,
    ) -> Result<Rendered, Error> {
        let raw = options.raw()?;
        let mut room: (Vec<u8>, Vec<sys::qinfer_text_part>) = (vec![0; 4096], Vec::new());
        room.1.resize_with(64, Default::default);
        loop {
            let (mut n, mut n_content) = (0, 0);
            // SAFETY: the conversation and the options live through the call, and the arrays have the room that is
            // told.
            let result = call(|error| unsafe {
                sys::qinfer_chat_render(
                    self.as_ptr(),
                    conversation.as_ptr().cast(),
                    conversation.len(),
                    &raw.options,
                    room.0.as_mut_ptr().cast(),
                    room.0.len(),
                    &mut n,
                    room.1.as_mut_ptr(),
                    room.1.len(),
                    &mut n_content,
                    error,
                )
            });
            match result {
                Ok(()) => {
                    fits(n, room.0.len())?;
                    fits(n_content, room.1.len())?;
                    let parts = room.1[..n_content].iter();
                    return Ok(Rendered {
                        text: String::from_utf8_lossy(&room.0[..n]).into_owned(),
                        content: parts.map(|p| p.begin as usize..p.end as usize).collect(),
                    });
                }
                // Both sizes are told, so the next call has the room.
                Err(failed)
                    if failed.status() == Status::BufferTooSmall
                        && (n > room.0.len() || n_content > room.1.len()) =>
                {
                    grow(&mut room.0, n)?;
                    grow(&mut room.1, n_content)?;
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// The tokens of that text: nothing that the conversation says becomes a control token.
    pub fn tokenize_chat(
        &self,
        conversation: &str,
        options: &ChatOptions,
    ) -> Result<Vec<Token>, Error> {
        let raw = options.raw()?;
        read_array(1024, |tokens, capacity, n, error| {
            // SAFETY: as in render_chat().
            unsafe {
                sys::qinfer_chat_tokenize(
                    self.as_ptr(),
                    conversation.as_ptr().cast(),
                    conversation.len(),
                    &raw.options,
                    tokens,
                    capacity,
                    n,
                    error,
                )
            }
        })
    }
}
