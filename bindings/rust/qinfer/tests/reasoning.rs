//! Replies that reason: the logits hook rests until the reasoning ends, its tokens are bounded, and who runs out inside
//! of it is told.

mod common;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use common::*;
use qinfer::{
    message, Chat, ChatOptions, Error, Finish, GenerateOptions, Generated, LogitsHook, Model, Part,
    Piece, Reply, ReplyOptions, Session, Status, Token, TokenizeOptions,
};
use serde_json::Value;

fn conversation() -> String {
    format!("{{\"messages\": [{}]}}", message("user", "Hi"))
}

/// Of a template that begins the reasoning.
fn thinking() -> ChatOptions {
    let text = "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}";
    ChatOptions {
        template_text: Some(text.into()),
        ..Default::default()
    }
}

fn token_of(text: &str) -> Token {
    let options = TokenizeOptions {
        add_special: false,
        parse_special: true,
        ..Default::default()
    };
    let tokens = chat_model().tokenize_with(text, &options).unwrap();
    assert_eq!(tokens.len(), 1, "{text}");
    tokens[0]
}

/// A session that draws "b" where no hook says otherwise.
fn session() -> Session {
    let mut session = Session::for_model(chat_model()).unwrap();
    session.set_bias(&[(token_of("b"), 1e6)]).unwrap();
    session
}

fn chat() -> Chat {
    let mut chat = Chat::with_session(session());
    chat.options = thinking();
    chat
}

/// A session with the prompt, and the reply to it.
fn turn(model: &Model) -> (Session, Reply) {
    let mut session = session();
    let prompt = chat_model()
        .tokenize_chat(&conversation(), &thinking())
        .unwrap();
    session.append(&prompt).unwrap();
    let options = ReplyOptions {
        chat: thinking(),
        ..Default::default()
    };
    (
        session,
        Reply::new(model, &conversation(), &options).unwrap(),
    )
}

fn bounded(max_tokens: u32, max_reasoning_tokens: u32) -> GenerateOptions {
    GenerateOptions {
        max_reasoning_tokens,
        ..up_to(max_tokens)
    }
}

fn go_on(_: Piece<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn joined(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Content(text) => out += &format!("c:{text};"),
            Part::Reasoning(text) => out += &format!("r:{text};"),
            other => panic!("{other:?}"),
        }
    }
    out
}

/// What a hook was asked and told.
#[derive(Default)]
struct Calls {
    applied: usize,
    accepted: Vec<Token>,
}

/// Lets nothing be drawn but "c".
struct OnlyC(Arc<Mutex<Calls>>);

impl LogitsHook for OnlyC {
    fn apply(&mut self, logits: &mut [f32]) -> ControlFlow<()> {
        self.0.lock().unwrap().applied += 1;
        let c = token_of("c") as usize;
        let kept = logits[c];
        logits.fill(f32::NEG_INFINITY);
        logits[c] = kept;
        ControlFlow::Continue(())
    }
    fn accept(&mut self, token: Token) -> ControlFlow<()> {
        self.0.lock().unwrap().accepted.push(token);
        ControlFlow::Continue(())
    }
    fn rewind(&mut self, n_tokens: usize) -> ControlFlow<()> {
        let mut calls = self.0.lock().unwrap();
        let left = calls.accepted.len().checked_sub(n_tokens).unwrap();
        calls.accepted.truncate(left);
        ControlFlow::Continue(())
    }
}

fn hooked(chat: &mut Chat) -> Arc<Mutex<Calls>> {
    let calls = Arc::new(Mutex::new(Calls::default()));
    let hook = OnlyC(calls.clone());
    chat.session().set_logits_hook(hook).unwrap();
    calls
}

#[test]
fn the_hook_of_a_chat_begins_after_the_reasoning() {
    let mut chat = chat();
    let calls = hooked(&mut chat);
    (chat.max_tokens, chat.max_reasoning_tokens) = (9, 4);
    for _ in 0..2 {
        let parts: Vec<Part> = chat.stream("Hi").unwrap().map(Result::unwrap).collect();
        assert_eq!(joined(&parts), "r:b;r:b;r:b;r:b;c:c;c:c;c:c;c:c;");
        let ended = chat.generated().unwrap();
        assert_eq!((ended.new_tokens, ended.reasoning_tokens), (9, 5));
        assert_eq!((ended.in_reasoning, ended.finish), (false, Finish::Length));
        let mut calls = calls.lock().unwrap();
        assert_eq!((calls.applied, calls.accepted.len()), (4, 4));
        calls.applied = 0;
        // The next prompt takes the reply back, and what the hook never had with it.
        chat.messages.clear();
    }
}

#[test]
fn a_chat_that_runs_out_inside_of_its_reasoning_is_told() {
    let mut chat = chat();
    for bound in [0, 3, 100] {
        chat.messages.clear();
        (chat.max_tokens, chat.max_reasoning_tokens) = (3, bound);
        assert_eq!(chat.send("Hi").unwrap(), "");
        let ended = chat.generated().unwrap();
        assert!(ended.in_reasoning && ended.finish == Finish::Length);
        assert_eq!(ended.reasoning_tokens, 3);
        let last: Value = serde_json::from_str(chat.messages.last().unwrap()).unwrap();
        assert_eq!(last["reasoning_content"], "bbb");
    }
}

#[test]
fn a_chat_without_reasoning_has_the_hook_from_the_first_token_on() {
    let mut chat = chat();
    let calls = hooked(&mut chat);
    chat.no_reasoning = true;
    (chat.max_tokens, chat.max_reasoning_tokens) = (3, 1);
    assert_eq!(chat.send("Hi").unwrap(), "ccc");
    let ended = chat.generated().unwrap();
    assert_eq!((ended.reasoning_tokens, ended.in_reasoning), (0, false));
    assert_eq!(calls.lock().unwrap().applied, 3);
}

#[test]
fn a_generation_is_given_its_reply() {
    for top_logprobs in [None, Some(1)] {
        let (mut session, mut reply) = turn(chat_model());
        assert!(reply.in_reasoning().unwrap());
        let options = GenerateOptions {
            top_logprobs,
            ..bounded(5, 2)
        };
        let mut parts = Vec::new();
        let ended = session
            .generate_with_reply(&options, &mut reply, |piece| {
                parts.extend(piece.parts);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(joined(&parts), "r:b;r:b;c:b;c:b;");
        assert_eq!((ended.new_tokens, ended.reasoning_tokens), (5, 3));
        assert!(!ended.in_reasoning && !reply.in_reasoning().unwrap());
        reply.finish().unwrap();
        assert_eq!(reply.next_part().unwrap(), None);
        let more = session
            .generate_with(&up_to(2), |piece| {
                assert!(piece.parts.is_empty());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((more.reasoning_tokens, more.in_reasoning), (0, false));
    }
}

#[test]
fn a_generation_with_a_reply_may_be_left_and_go_on() {
    let (mut session, mut reply) = turn(chat_model());
    let broken_off = session.generate_with_reply(&up_to(9), &mut reply, |_| ControlFlow::Break(()));
    assert_eq!(broken_off.unwrap().finish, Finish::Callback);
    let said = panic_of(|| {
        session.generate_with_reply(&up_to(9), &mut reply, |piece| panic!("{:?}", piece.parts))
    });
    assert_eq!(said, "[Reasoning(\"b\")]");
    let ended = session.generate_with_reply(&bounded(3, 1), &mut reply, go_on);
    assert_eq!(ended.unwrap().reasoning_tokens, 2);
    let made: Value = serde_json::from_str(&reply.message().unwrap()).unwrap();
    assert_eq!(made["reasoning_content"], "bbb");
    assert_eq!(made["content"], "b");
}

#[test]
fn a_reply_that_does_not_fit_is_refused() {
    let refused = |result: Result<Generated, Error>, status: Status, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.status(), status);
        assert!(error.message().contains(words), "{error}");
    };
    let (mut session, mut reply) = turn(chat_model());
    let length = session.len();
    refused(
        session.generate(&bounded(1, 3)),
        Status::InvalidArgument,
        "max_reasoning_tokens is 3",
    );
    let mut other = turn(model()).1;
    refused(
        session.generate_with_reply(&up_to(1), &mut other, go_on),
        Status::InvalidArgument,
        "the reply is of another model",
    );
    reply.finish().unwrap();
    refused(
        session.generate_with_reply(&up_to(1), &mut reply, go_on),
        Status::State,
        "the reply is finished",
    );
    assert_eq!(session.len(), length);
}

#[test]
fn without_reasoning_its_marker_is_content() {
    let options = ReplyOptions {
        no_reasoning: true,
        chat: thinking(),
        ..Default::default()
    };
    let mut reply = Reply::new(chat_model(), &conversation(), &options).unwrap();
    assert!(!reply.in_reasoning().unwrap());
    for text in ["<think>", "b", "</think>"] {
        reply.push(token_of(text)).unwrap();
    }
    reply.finish().unwrap();
    let made: Value = serde_json::from_str(&reply.message().unwrap()).unwrap();
    assert_eq!(made["content"], "<think>b</think>");
}
