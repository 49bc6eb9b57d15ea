//! Grammars: what sessions, streams, chats and engines draw fulfils them; errors with their offsets, limits, warnings and
//! matchers of programs that sample themselves.

mod common;

use std::ops::ControlFlow;

use common::*;
use qinfer::{
    grammar_version_number, version_number, Chat, ChatOptions, Engine, Error, Finish, Grammar,
    GrammarKind, GrammarOptions, Matcher, Part, SamplerOptions, Session, Status, Token, Vocabulary,
};
use serde_json::Value;

const LILY: &str = r#"{"type": "object", "properties": {"hen": {"type": "integer", "minimum": 0, "maximum": 99},
    "day": {"enum": ["Monday", "Tuesday"]}}, "required": ["hen", "day"], "additionalProperties": false}"#;

fn vocabulary() -> Vocabulary {
    Vocabulary::new(model()).unwrap()
}

fn any() -> GrammarOptions {
    GrammarOptions::default()
}

fn schema() -> Grammar {
    Grammar::json_schema(&vocabulary(), LILY, &any()).unwrap()
}

fn regex(pattern: &str) -> Grammar {
    Grammar::regex(&vocabulary(), pattern, &any()).unwrap()
}

fn is_fulfilled(text: &str) -> bool {
    let document: Value = serde_json::from_str(text).unwrap();
    let (hen, day) = (document["hen"].as_u64().unwrap(), text_of(&document["day"]));
    document.as_object().unwrap().len() == 2 && hen <= 99 && ["Monday", "Tuesday"].contains(&day)
}

fn text_of(value: &Value) -> &str {
    common::text(value)
}

/// A session at a temperature, which says anything.
fn wild(seed: u64) -> Session {
    let mut session = begun();
    let options = SamplerOptions {
        temperature: 1.5,
        seed,
        ..Default::default()
    };
    session.set_sampler(&options).unwrap();
    session
}

/// What the call fails with: its status, its detail, and that it says so.
fn failure<T: std::fmt::Debug>(result: Result<T, Error>, says: &str) -> (Status, i64) {
    let error = result.unwrap_err();
    assert!(error.message().contains(says), "{error}");
    (error.status(), error.detail())
}

#[test]
fn what_is_drawn_fulfils_a_schema_an_expression_and_a_lark_grammar() {
    let grammar = schema();
    assert_eq!(grammar.kind(), GrammarKind::JsonSchema);
    for seed in 0..10 {
        let mut session = wild(seed);
        let matcher = session.set_grammar(&grammar).unwrap();
        let done = session.generate(&up_to(200)).unwrap();
        assert_eq!(done.finish, Finish::End);
        assert!(is_fulfilled(&done.text), "{}", done.text);
        let state = matcher.state().unwrap();
        assert_eq!(state.tokens, u64::from(done.new_tokens));
        assert!(state.accepting && state.ended && !state.failed);
        assert_eq!(matcher.failure(), None);
    }
    let mut session = wild(3);
    session.set_grammar(&regex("[a-c]{3}")).unwrap();
    let mut stream = session.stream(&up_to(100)).unwrap();
    let said: String = stream.by_ref().map(Result::unwrap).collect();
    drop(stream);
    assert!(said.len() == 3 && said.bytes().all(|c| b"abc".contains(&c)));
    let text = "start: \"a\" DIGITS\nDIGITS: /[0-9]{2}/";
    let grammar = Grammar::lark(&vocabulary(), text, &any()).unwrap();
    assert_eq!(grammar.kind(), GrammarKind::Lark);
    let mut session = wild(3);
    session.set_grammar(&grammar).unwrap();
    let said = session.generate(&up_to(100)).unwrap().text;
    assert!(said.len() == 3 && said.starts_with('a') && said[1..].parse::<u32>().is_ok());
}

#[test]
fn a_grammar_is_for_many_threads_and_outlives_what_it_was_made_from() {
    assert_eq!(grammar_version_number(), version_number());
    let grammar = {
        let vocabulary = vocabulary();
        assert_eq!(vocabulary.clone().model().as_ptr(), model().as_ptr());
        Grammar::json_schema(&vocabulary, LILY, &any()).unwrap()
    };
    assert_eq!(grammar.vocabulary().model().as_ptr(), model().as_ptr());
    let texts = || -> Vec<String> {
        std::thread::scope(|scope| {
            let drawn = [0, 1, 2, 3].map(|seed| {
                let grammar = grammar.clone();
                scope.spawn(move || {
                    let mut session = wild(seed);
                    session.set_grammar(&grammar).unwrap();
                    drop(grammar);
                    session.generate(&up_to(200)).unwrap().text
                })
            });
            drawn.into_iter().map(|one| one.join().unwrap()).collect()
        })
    };
    let (first, second) = (texts(), texts());
    assert!(first.iter().all(|text| is_fulfilled(text)), "{first:?}");
    assert_eq!(first, second);
}

#[test]
fn texts_that_are_no_grammar_are_refused_with_where_and_why() {
    let compile = |text: &str| Grammar::json_schema(&vocabulary(), text, &any());
    assert_eq!(failure(compile("{\"type\": }"), ""), (Status::Format, 9));
    let (status, _) = failure(
        compile("{\"type\": \"array\", \"uniqueItems\": true}"),
        "uniqueItems",
    );
    assert_eq!(status, Status::Unsupported);
    let (status, _) = failure(compile("false"), "");
    assert_eq!(status, Status::InvalidArgument);
    assert_eq!(failure(compile("{}\0"), ""), (Status::InvalidArgument, 2));
    let (status, _) = failure(Grammar::regex(&vocabulary(), "a(b", &any()), "");
    assert_eq!(status, Status::Format);
    let (status, _) = failure(
        Grammar::lark(&vocabulary(), "begin: \"a\"", &any()),
        "start",
    );
    assert_eq!(status, Status::Format);
    assert!(Grammar::regex(&vocabulary(), "", &any()).is_ok());
}

#[test]
fn limits_and_warnings_are_those_that_were_asked_for() {
    let with =
        |options: GrammarOptions| Grammar::regex(&vocabulary(), "(a(b(c)d){3}|e){2}", &options);
    with(any()).unwrap();
    let options = |set: fn(&mut GrammarOptions)| {
        let mut options = any();
        set(&mut options);
        options
    };
    for (set, says) in [
        (
            (|o| o.max_source_bytes = 4) as fn(&mut GrammarOptions),
            "max_source_bytes",
        ),
        (|o| o.max_depth = 1, "max_depth"),
        (|o| o.max_symbols = 1, "limit"),
        (|o| o.compile_work = 1, "limit"),
    ] {
        assert_eq!(
            failure(with(options(set)), says).0,
            Status::Unsupported,
            "{says}"
        );
    }
    for (set, says) in [
        (
            (|o| o.max_depth = 121) as fn(&mut GrammarOptions),
            "max_depth is 121",
        ),
        (|o| o.max_states = u32::MAX, "max_states"),
        (|o| o.max_row_items = u32::MAX, "max_row_items"),
        (|o| o.mask_work = u64::MAX, "mask_work"),
    ] {
        assert_eq!(
            failure(with(options(set)), says).0,
            Status::InvalidArgument,
            "{says}"
        );
    }
    let warned = |schema: &str| {
        Grammar::json_schema(&vocabulary(), schema, &any())
            .unwrap()
            .warnings()
    };
    assert_eq!(warned("{\"enum\": [1, 2]}"), 0);
    assert_eq!(
        warned("{\"type\": \"string\", \"format\": \"hat-size\"}"),
        1
    );
}

#[test]
fn white_space_is_bounded_unless_all_of_it_may_come() {
    let spaces = model().tokenize_with(" ", &bare()).unwrap();
    let begin = model().tokenize_with("{", &bare()).unwrap();
    for any_space in [false, true] {
        let options = GrammarOptions { any_space, ..any() };
        let grammar = Grammar::json_schema(&vocabulary(), LILY, &options).unwrap();
        let matcher = Matcher::new(&grammar).unwrap();
        matcher.accept(&begin).unwrap();
        let taken = (0..50)
            .take_while(|_| matcher.accept(&spaces).is_ok())
            .count();
        assert_eq!(taken == 50, any_space, "{taken}");
    }
}

fn bare() -> qinfer::TokenizeOptions {
    qinfer::TokenizeOptions {
        add_special: false,
        ..Default::default()
    }
}

#[test]
fn a_mask_allows_the_tokens_whose_text_goes_on() {
    let matcher = Matcher::new(&regex("(ab|c)d")).unwrap();
    let n_vocab = model().info().n_vocab;
    // What may come, up to the end.
    let mut rests = vec!["abd", "cd"];
    while rests != [""] {
        rests = step(&matcher, &rests);
    }
    let state = matcher.state().unwrap();
    assert!(state.accepting && state.ended);
    let mask = matcher.mask().unwrap();
    for token in 0..n_vocab as Token {
        assert_eq!(
            mask.allows(token),
            model().token_flags(token).end,
            "{token}"
        );
    }
    assert_eq!(mask.words().len(), n_vocab.div_ceil(32) as usize);
    assert!(!mask.allows(-1) && !mask.allows(n_vocab as Token) && !mask.allows(Token::MAX));
}

/// Compares the mask with these texts, and accepts one of its tokens; what may come after it.
fn step<'a>(matcher: &Matcher, rests: &[&'a str]) -> Vec<&'a str> {
    let mask = matcher.mask().unwrap();
    let mut last = None;
    for token in 0..model().info().n_vocab as Token {
        let text = model().token_bytes(token);
        let goes_on = rests.iter().any(|rest| rest.as_bytes().starts_with(text));
        let is_text = !text.is_empty() && !model().token_flags(token).control;
        assert_eq!(mask.allows(token), goes_on && is_text, "{token} {text:?}");
        if mask.allows(token) {
            last = Some(token);
        }
    }
    let token = last.unwrap();
    matcher.accept(&[token]).unwrap();
    let text = std::str::from_utf8(model().token_bytes(token)).unwrap();
    rests
        .iter()
        .filter_map(|rest| rest.strip_prefix(text))
        .collect()
}

#[test]
fn accepting_is_all_or_nothing_and_clones_go_their_own_way() {
    let text = |text: &str| model().tokenize_with(text, &bare()).unwrap();
    let (a, b) = (text("a"), text("b"));
    let matcher = Matcher::new(&regex("aab")).unwrap();
    let result = matcher.accept(&[a[0], b[0]]);
    assert_eq!(failure(result, ""), (Status::InvalidArgument, 1));
    assert_eq!(matcher.state().unwrap().tokens, 0);
    matcher.accept(&a).unwrap();
    let clone = matcher.try_clone().unwrap();
    matcher.accept(&[a[0], b[0]]).unwrap();
    let state = matcher.state().unwrap();
    assert!(state.accepting && state.ended && state.tokens == 3);
    assert_eq!(clone.state().unwrap().tokens, 1);
    matcher.rewind(2).unwrap();
    assert_eq!(matcher.mask().unwrap(), clone.mask().unwrap());
    assert_eq!(failure(clone.rewind(2), "").0, Status::InvalidArgument);
    assert_eq!(clone.grammar().as_ptr(), matcher.grammar().as_ptr());
}

#[test]
fn forks_truncations_and_snapshots_stay_in_the_grammar() {
    let folder = Folder::new();
    let mut session = wild(7);
    let prompt = session.len();
    let grammar = schema();
    session.set_grammar(&grammar).unwrap();
    assert_eq!(session.generate(&up_to(6)).unwrap().finish, Finish::Length);
    let fork = session.fork().unwrap();
    fork.save(folder.join("snapshot")).unwrap();
    let mut loaded = Session::load(session.cache(), folder.join("snapshot")).unwrap();
    let matcher = Matcher::new(&grammar).unwrap();
    matcher.accept(&loaded.tokens().unwrap()[prompt..]).unwrap();
    loaded.set_matcher(&matcher).unwrap();
    session.truncate(prompt + 3).unwrap();
    for mut one in [session, fork, loaded] {
        let done = one.generate(&up_to(200)).unwrap();
        assert_eq!(done.finish, Finish::End);
        let drawn = &one.tokens().unwrap()[prompt..];
        let said = one.model().detokenize(drawn).unwrap();
        assert!(is_fulfilled(&said), "{said}");
    }
}

#[test]
fn a_grammar_of_another_model_and_a_matcher_of_another_session_are_errors() {
    let grammar = regex("[a-c]{3}");
    let mut session = Session::for_model(chat_model()).unwrap();
    let result = session.set_grammar(&grammar);
    assert_eq!(failure(result, "another model").0, Status::InvalidArgument);
    let matcher = Matcher::new(&grammar).unwrap();
    let result = session.set_matcher(&matcher);
    assert_eq!(failure(result, "another model").0, Status::InvalidArgument);
    // It can still be joined, once.
    let (mut first, mut second) = (wild(1), wild(2));
    first.set_matcher(&matcher).unwrap();
    let result = second.set_matcher(&matcher);
    assert_eq!(
        failure(result, "joined to a session before").0,
        Status::State
    );
    second.set_matcher(&matcher.try_clone().unwrap()).unwrap();
    for session in [&mut first, &mut second] {
        assert_eq!(session.generate(&up_to(50)).unwrap().text.len(), 3);
    }
    // One that a session did not take can be joined to another.
    let matcher = Matcher::new(&grammar).unwrap();
    let mut lent = begun();
    std::mem::forget(lent.stream(&up_to(1)).unwrap());
    assert!(lent.set_matcher(&matcher).is_err());
    first.clear_logits_hook().unwrap();
    assert!(first.generate(&up_to(5)).unwrap().text.len() > 3);
    second.set_matcher(&matcher).unwrap();
}

#[test]
fn a_matcher_says_why_it_goes_on_no_more() {
    let options = GrammarOptions {
        mask_work: 20_000,
        ..any()
    };
    let text = "start: \"q\" x::0x0\nx::_: \"a\" | x::incr(_) \"b\"\n";
    let grammar = Grammar::lark(&vocabulary(), text, &options).unwrap();
    let mut session = wild(1);
    let matcher = session.set_grammar(&grammar).unwrap();
    let error = session.generate(&up_to(5)).unwrap_err();
    assert_eq!(error.status(), Status::Cancelled);
    assert!(matcher.state().unwrap().failed);
    let why = matcher.failure().unwrap();
    assert_eq!(why.status(), Status::Unsupported);
    assert!(why.message().contains("mask_work"), "{why}");
    assert_eq!(matcher.mask().unwrap_err().status(), Status::Unsupported);
    session.clear_logits_hook().unwrap();
    session.generate(&up_to(5)).unwrap();
}

#[test]
fn a_grammar_that_goes_on_no_more_leaves_no_reply_in_a_chat() {
    let options = GrammarOptions {
        mask_work: 20_000,
        ..any()
    };
    let text = "start: \"q\" x::0x0\nx::_: \"a\" | x::incr(_) \"b\"\n";
    let vocabulary = Vocabulary::new(chat_model()).unwrap();
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.grammar = Some(Grammar::lark(&vocabulary, text, &options).unwrap());
    let why = chat.send("Hello!").unwrap_err();
    assert_eq!(why.status(), Status::Unsupported);
    assert!(why.message().contains("mask_work"), "{why}");
    let streamed: Vec<_> = chat.stream("Hello!").unwrap().collect();
    let why = streamed.last().unwrap().as_ref().unwrap_err();
    assert_eq!(why.status(), Status::Unsupported);
    assert!(chat.messages.is_empty());
    chat.grammar = None;
    assert!(!chat.send("Hello!").unwrap().is_empty());
}

#[test]
fn an_engine_draws_within_grammars() {
    let cache = cache(60);
    let engine = Engine::new(&cache, &Default::default()).unwrap();
    let grammar = schema();
    let request = |seed| {
        let mut session = session_of(&cache, 300);
        session.append_text("Once upon a time").unwrap();
        let options = SamplerOptions {
            temperature: 1.5,
            seed,
            ..Default::default()
        };
        session.set_sampler(&options).unwrap();
        session.set_grammar(&grammar).unwrap();
        engine
            .submit(session, &up_to(200), &Default::default())
            .unwrap()
    };
    let jobs = [0, 1, 2].map(request);
    for (seed, job) in jobs.into_iter().enumerate() {
        let (_, done) = job.finish();
        let mut alone = wild(seed as u64);
        alone.set_grammar(&grammar).unwrap();
        assert_eq!(
            done.unwrap().text,
            alone.generate(&up_to(200)).unwrap().text
        );
    }
}

#[test]
fn each_reply_of_a_chat_fulfils_its_grammar() {
    let vocabulary = Vocabulary::new(chat_model()).unwrap();
    let grammar = Grammar::regex(&vocabulary, "(yes|no), [a-z]{2,9}", &any()).unwrap();
    let is_reply = |said: &str| {
        let rest = said.strip_prefix("yes, ").or(said.strip_prefix("no, "));
        rest.is_some_and(|rest| {
            (2..=9).contains(&rest.len()) && rest.bytes().all(|c| c.is_ascii_lowercase())
        })
    };
    let mut chat = Chat::new(chat_model()).unwrap();
    let question = "What is the capital of France?";
    chat.grammar = Some(grammar.clone());
    for _ in 0..2 {
        let said = chat.send(question).unwrap();
        assert!(is_reply(&said), "{said}");
        let said: String = chat
            .stream(question)
            .unwrap()
            .map(|part| match part.unwrap() {
                Part::Content(text) => text,
                _ => String::new(),
            })
            .collect();
        assert!(is_reply(&said), "{said}");
    }
    assert_eq!(panic_of(|| chat.reply_with(|_| panic!("a part"))), "a part");
    chat.grammar = None;
    chat.messages.clear();
    assert_eq!(
        chat.send(question).unwrap(),
        "The capital of France is Paris."
    );
    // The reasoning is no part of it.
    chat.grammar = Some(grammar);
    chat.max_reasoning_tokens = 6;
    chat.options = ChatOptions {
        template_text: Some(
            "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}".into(),
        ),
        ..Default::default()
    };
    let (mut content, mut reasoned) = (String::new(), false);
    chat.messages = vec![qinfer::message("user", "Hi")];
    chat.reply_with(|part| {
        match part {
            Part::Content(text) => content += &text,
            Part::Reasoning(_) => reasoned = true,
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(is_reply(&content) && reasoned, "{content} {reasoned}");
}

#[test]
fn a_chat_of_another_model_does_not_take_the_grammar() {
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.grammar = Some(regex("a"));
    assert_eq!(
        failure(chat.send("Hi"), "another model").0,
        Status::InvalidArgument
    );
    assert!(chat.messages.is_empty());
    assert!(chat.stream("Hi").unwrap().any(|part| part.is_err()));
    assert!(chat.messages.is_empty());
}

#[test]
fn objects_say_what_they_are() {
    let grammar = schema();
    let said = format!("{:?}", grammar.vocabulary());
    assert!(said.starts_with("Vocabulary(Model("), "{said}");
    let said = format!("{:?}", Matcher::new(&grammar).unwrap());
    assert!(
        said.contains("kind: JsonSchema") && said.contains("tokens: 0"),
        "{said}"
    );
}
