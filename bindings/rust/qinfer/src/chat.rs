//! Conversations: turns of which only what is new is evaluated.

use std::fmt::Write as _;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::panics::discard;
use crate::stream::Worker;
use crate::{
    Cancel, ChatOptions, Error, GenerateOptions, Generated, Model, Part, Reply, ReplyFormat,
    ReplyOptions, Session, Status,
};

/// A conversation with a model. Each turn evaluates only what is new.
///
/// ```
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).unwrap();
/// # use qinfer::{Chat, LoadOptions, Model};
/// let model = Model::load("examples/models/tiny-chat", LoadOptions::default())?;
/// let mut chat = Chat::new(&model)?;
/// assert_eq!(chat.send("What is the capital of France?")?, "The capital of France is Paris.");
/// # Ok::<(), qinfer::Error>(())
/// ```
///
/// Messages, tools and variables are JSON text, so that any JSON library may make and read them.
#[derive(Debug)]
pub struct Chat {
    /// The messages so far, a JSON object each. May be changed between turns.
    pub messages: Vec<String>,
    /// The tools that the model may call, a JSON object each.
    pub tools: Vec<String>,
    /// Other variables of the template, such as `enable_thinking`: name and JSON value.
    pub variables: Vec<(String, String)>,
    /// How prompts are rendered.
    pub options: ChatOptions,
    /// How calls are written.
    pub format: ReplyFormat,
    /// Tokens of a reply at most; 0 = no bound but the context's.
    pub max_tokens: u32,
    /// Of these, tokens of reasoning at most; then the content begins. 0 = no bound.
    pub max_reasoning_tokens: u32,
    /// Nothing is taken for reasoning: a hook of the session has each reply from its first token on.
    pub no_reasoning: bool,
    /// Ends a reply.
    pub cancel: Option<Cancel>,
    /// What the content of each reply fulfils, from its beginning to its end. It takes the place of a hook that the
    /// session has.
    #[cfg(feature = "grammar")]
    pub grammar: Option<crate::Grammar>,
    session: Session,
    generated: Option<Generated>,
}

/// A message as JSON: `{"role": "user", "content": "Hi"}`.
pub fn message(role: &str, content: &str) -> String {
    format!(
        "{{\"role\": {}, \"content\": {}}}",
        quoted(role),
        quoted(content)
    )
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Whether a text is one JSON value, as far as commas and brackets go. The library reads what is inside.
fn is_one_value(text: &str) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    for c in text.bytes() {
        if in_text {
            in_text = escaped || c != b'"';
            escaped = !escaped && c == b'\\';
            continue;
        }
        match c {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' | b']' => return false,
            b',' | b':' if depth == 0 => return false,
            _ => {}
        }
    }
    depth == 0 && !in_text && !text.trim().is_empty()
}

impl Chat {
    /// A conversation in a new session.
    pub fn new(model: &Model) -> Result<Chat, Error> {
        Ok(Chat::with_session(Session::for_model(model)?))
    }

    /// A conversation in this session, which brings its sampler and its hook. The hook is asked once the reasoning of a
    /// reply has ended.
    pub fn with_session(session: Session) -> Chat {
        Chat {
            messages: Vec::new(),
            tools: Vec::new(),
            variables: Vec::new(),
            options: ChatOptions::default(),
            format: ReplyFormat::default(),
            max_tokens: 0,
            max_reasoning_tokens: 0,
            no_reasoning: false,
            cancel: None,
            #[cfg(feature = "grammar")]
            grammar: None,
            session,
            generated: None,
        }
    }

    /// The session, for its sampler, say.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// How the last reply ended.
    pub fn generated(&self) -> Option<&Generated> {
        self.generated.as_ref()
    }

    /// The conversation as JSON, as [`Model::render_chat`] takes it.
    pub fn conversation(&self) -> String {
        let mut out = format!("{{\"messages\": [{}]", self.messages.join(", "));
        if !self.tools.is_empty() {
            let _ = write!(out, ", \"tools\": [{}]", self.tools.join(", "));
        }
        for (name, value) in &self.variables {
            let _ = write!(out, ", {}: {value}", quoted(name));
        }
        out + "}"
    }

    /// A message of the user; returns the content of the reply. Calls of tools are in the last of the messages.
    pub fn send(&mut self, content: &str) -> Result<String, Error> {
        let mut said = String::new();
        let n_messages = self.messages.len();
        self.messages.push(message("user", content));
        let result = self.reply_with(|part| {
            if let Part::Content(text) = part {
                said.push_str(&text);
            }
            ControlFlow::Continue(())
        });
        take_back(&mut self.messages, n_messages);
        result.map(|()| said)
    }

    /// A reply to the messages as they are, whose parts `on_part` gets as they come. The reply is added to the
    /// messages, as far as it came where `on_part` breaks it off or a request ends it, unless the call fails.
    pub fn reply_with(
        &mut self,
        mut on_part: impl FnMut(Part) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let turn = self.turn()?;
        let mut put = |part: Option<Part>| part.map_or(ControlFlow::Continue(()), &mut on_part);
        let done = turn.run(&mut self.session, &mut put)?;
        done.keep(&mut self.messages, &mut self.generated)
    }

    /// A message of the user; the parts of the reply come as an iterator, as [`Session::stream`] does. When it has
    /// ended, or is dropped before, the reply is added to the messages as far as it came. Where there is none, the
    /// message of the user is taken back.
    pub fn stream(&mut self, content: &str) -> Result<ChatStream<'_>, Error> {
        let n_messages = self.messages.len();
        self.messages.push(message("user", content));
        match self.turn() {
            Ok(turn) => self.start(turn, Some(n_messages)),
            Err(failed) => {
                self.messages.truncate(n_messages);
                Err(failed)
            }
        }
    }

    /// The same for the messages as they are.
    pub fn stream_reply(&mut self) -> Result<ChatStream<'_>, Error> {
        let turn = self.turn()?;
        self.start(turn, None)
    }

    fn start(&mut self, turn: Turn, n_before: Option<usize>) -> Result<ChatStream<'_>, Error> {
        let worker = Worker::start(&mut self.session, move |session, put| {
            turn.run(session, put)
        });
        match worker {
            Ok(worker) => Ok(ChatStream {
                worker,
                messages: &mut self.messages,
                generated: &mut self.generated,
                n_before,
            }),
            Err(failed) => {
                take_back(&mut self.messages, n_before.unwrap_or(usize::MAX));
                Err(failed)
            }
        }
    }

    /// Looks for parts that would change the meaning of others.
    fn check(&self) -> Result<(), Error> {
        let refuse = |what: String, wanted: &str, at: usize| {
            let message = format!("{what} is not JSON of one {wanted}");
            Err(Error::new(Status::InvalidArgument, message, at as i64))
        };
        for (name, list) in [("messages", &self.messages), ("tools", &self.tools)] {
            let bad = |text: &String| !text.trim_start().starts_with('{') || !is_one_value(text);
            if let Some(at) = list.iter().position(bad) {
                return refuse(format!("{name}[{at}]"), "object", at);
            }
        }
        let bad = |variable: &(String, String)| !is_one_value(&variable.1);
        if let Some(at) = self.variables.iter().position(bad) {
            return refuse(format!("variables[{at}]"), "value", at);
        }
        Ok(())
    }

    /// A conversation that fills the context would have an empty reply.
    fn set_tokens(&mut self, tokens: &[i32]) -> Result<(), Error> {
        let most = self.session.info()?.max_tokens as usize;
        if tokens.len() >= most {
            let message = format!(
                "the conversation has {} tokens, and a context of {most} has no room for a reply: shorten or remove messages",
                tokens.len()
            );
            return Err(Error::new(
                Status::ContextFull,
                message,
                tokens.len() as i64,
            ));
        }
        self.session.set_tokens(tokens)?;
        Ok(())
    }

    /// Makes the session's tokens those of the prompt.
    fn turn(&mut self) -> Result<Turn, Error> {
        self.check()?;
        let conversation = self.conversation();
        let model = self.session.model().clone();
        let options = ReplyOptions {
            format: self.format,
            no_reasoning: self.no_reasoning,
            chat: self.options.clone(),
        };
        let reply = Reply::new(&model, &conversation, &options)?;
        self.set_tokens(&model.tokenize_chat(&conversation, &self.options)?)?;
        let generate = GenerateOptions {
            max_tokens: self.max_tokens,
            max_reasoning_tokens: self.max_reasoning_tokens,
            cancel: self.cancel.clone(),
            ..Default::default()
        };
        self.generated = None;
        Ok(Turn {
            reply,
            generate,
            #[cfg(feature = "grammar")]
            grammar: self.grammar.clone(),
        })
    }
}

/// A reply that is to come.
struct Turn {
    reply: Reply,
    generate: GenerateOptions,
    #[cfg(feature = "grammar")]
    grammar: Option<crate::Grammar>,
}

/// One that has come, as far as it came; without a message where nothing did.
struct Done {
    message: Option<String>,
    generated: Result<Generated, Error>,
}

impl Done {
    fn keep(
        self,
        messages: &mut Vec<String>,
        generated: &mut Option<Generated>,
    ) -> Result<(), Error> {
        messages.extend(self.message);
        *generated = Some(self.generated?);
        Ok(())
    }
}

/// Without a reply after the message of the user, which is number `n_before`, that goes too: templates want roles that
/// alternate.
fn take_back(messages: &mut Vec<String>, n_before: usize) {
    if n_before.checked_add(1) == Some(messages.len()) {
        messages.truncate(n_before);
    }
}

impl Turn {
    fn run(
        mut self,
        session: &mut Session,
        put: &mut dyn FnMut(Option<Part>) -> ControlFlow<()>,
    ) -> Result<Done, Error> {
        #[cfg(feature = "grammar")]
        let mut session = crate::grammar::Fulfilling::begin(session, self.grammar.as_ref())?;
        let mut broken_off = false;
        let mut received = false;
        let generated = session.generate_with_reply(&self.generate, &mut self.reply, |piece| {
            received |= piece.token.is_some();
            let flow = hand_over(piece.parts, put);
            broken_off |= flow.is_break();
            flow
        });
        let generated = match generated {
            Err(error) if error.status() != Status::Cancelled => return Err(error),
            ended => ended,
        };
        #[cfg(feature = "grammar")]
        if let Some(why) = session.failure().filter(|_| generated.is_err()) {
            return Err(why);
        }
        let is_reply = generated.is_ok() && !broken_off;
        let message = if received || is_reply {
            self.reply.finish()?;
            if is_reply {
                while let Some(part) = self.reply.next_part()? {
                    if put(Some(part)).is_break() {
                        break;
                    }
                }
            }
            Some(self.reply.message()?)
        } else {
            None
        };
        Ok(Done { message, generated })
    }
}

/// Hands over the parts of one token.
fn hand_over(
    parts: Vec<Part>,
    put: &mut dyn FnMut(Option<Part>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for part in parts {
        put(Some(part))?;
    }
    // Tokens without a part, such as those of a call that is not complete, must not keep a reader that has left.
    put(None)
}

/// The parts of a reply: [`Chat::stream`].
pub struct ChatStream<'a> {
    worker: Worker<'a, Part, Result<Done, Error>>,
    messages: &'a mut Vec<String>,
    generated: &'a mut Option<Generated>,
    /// Messages before that of the user, if the stream has added one.
    n_before: Option<usize>,
}

impl ChatStream<'_> {
    /// Keeps what there is once the work is over; `None` if that was done.
    fn keep(&mut self) -> Option<Result<(), Error>> {
        let result = self.worker.join()?;
        let kept = result.and_then(|done| done.keep(self.messages, self.generated));
        take_back(self.messages, self.n_before.unwrap_or(usize::MAX));
        Some(kept)
    }
}

impl Drop for ChatStream<'_> {
    fn drop(&mut self) {
        // A panic of the work would end the process in a drop while another one unwinds.
        if !std::thread::panicking() {
            let _ = catch_unwind(AssertUnwindSafe(|| self.keep())).map_err(discard);
        }
    }
}

impl Iterator for ChatStream<'_> {
    type Item = Result<Part, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(part) = self.worker.next() {
            return Some(Ok(part));
        }
        match self.keep()? {
            Ok(()) => None,
            Err(failed) => Some(Err(failed)),
        }
    }
}

impl FusedIterator for ChatStream<'_> {}
