//! The cases that every binding must do alike: bindings/conformance/cases.json.

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use common::store::{Fault, Store};
use common::*;
use qinfer::{
    Cancel, Chat, Error, EvalOptions, Finish, GenerateOptions, KvCache, KvCacheOptions,
    LoadOptions, Model, Part, Reply, ReplyOptions, Runtime, RuntimeOptions, Session,
    SnapshotOptions, Status, Token, TokenizeOptions,
};
use serde_json::Value;

#[test]
fn every_key_of_the_cases_has_a_test_here() {
    let known = [
        "model",
        "chat_model",
        "greedy",
        "stop",
        "roundtrip",
        "chat",
        "call",
        "schema",
        "hook",
        "prefix",
        "snapshot",
        "concurrent",
        "errors",
    ];
    let keys: BTreeSet<&str> = cases()
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, BTreeSet::from(known));
}

#[test]
fn greedy_generation_gives_the_ids_and_the_text() {
    for case in list(&cases()["greedy"]) {
        let mut drawn: Vec<Token> = Vec::new();
        let done = prompted(text(&case["prompt"]))
            .generate_with(&up_to(number(&case["new_tokens"])), |piece| {
                drawn.extend(piece.token);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            (drawn, done.text.as_str()),
            (ids(&case["ids"]), text(&case["text"]))
        );
        assert_eq!((done.finish, done.new_tokens), (Finish::Length, 16));
    }
}

#[test]
fn sampling_token_by_token_gives_the_same_ids() {
    for case in list(&cases()["greedy"]) {
        let mut session = prompted(text(&case["prompt"]));
        for id in ids(&case["ids"]) {
            session.evaluate().unwrap();
            assert_eq!(session.sample().unwrap(), id);
        }
        let said = model().detokenize(&ids(&case["ids"])).unwrap();
        assert_eq!(said, text(&case["text"]));
    }
}

#[test]
fn a_stream_gives_the_text_in_pieces() {
    for case in list(&cases()["greedy"]) {
        let mut session = prompted(text(&case["prompt"]));
        let mut stream = session.stream(&up_to(number(&case["new_tokens"]))).unwrap();
        let pieces: Vec<String> = stream.by_ref().map(Result::unwrap).collect();
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!(pieces.concat(), text(&case["text"]));
        assert_eq!(stream.generated().unwrap().finish, Finish::Length);
    }
}

#[test]
fn a_stream_that_is_left_early_leaves_a_session_that_goes_on() {
    let case = &cases()["greedy"][0];
    let mut session = begun();
    let prompt = session.len();
    let mut stream = session.stream(&up_to(100)).unwrap();
    let first = stream.next().unwrap().unwrap();
    drop(stream);
    assert!(text(&case["text"]).starts_with(&first));
    // The token that was read and at most the one after it.
    assert!(
        (1..=2).contains(&(session.len() - prompt)),
        "{}",
        session.len()
    );
    assert_eq!(session.generate(&up_to(3)).unwrap().new_tokens, 3);
    let drawn = &session.tokens().unwrap()[prompt..];
    assert_eq!(drawn, &ids(&case["ids"])[..drawn.len()]);
}

#[test]
fn the_text_ends_before_a_stop_text_in_callbacks_and_streams() {
    for case in list(&cases()["stop"]) {
        let options = GenerateOptions {
            stop: list(&case["stop"])
                .iter()
                .map(|stop| text(stop).into())
                .collect(),
            ..up_to(number(&case["new_tokens"]))
        };
        assert_eq!(case["finish"], "stop");
        let done = prompted(text(&case["prompt"])).generate(&options).unwrap();
        assert_eq!(
            (done.text.as_str(), done.finish),
            (text(&case["text"]), Finish::Stop)
        );
        let mut session = prompted(text(&case["prompt"]));
        let mut stream = session.stream(&options).unwrap();
        let streamed: String = stream.by_ref().map(Result::unwrap).collect();
        assert_eq!(streamed, text(&case["text"]));
        assert_eq!(stream.finish().unwrap().finish, Finish::Stop);
    }
}

#[test]
fn texts_come_back_from_their_tokens() {
    let options = TokenizeOptions {
        add_special: false,
        ..Default::default()
    };
    for case in list(&cases()["roundtrip"]) {
        let tokens = model().tokenize_with(text(case), &options).unwrap();
        assert_eq!(model().detokenize(&tokens).unwrap(), text(case));
    }
}

#[test]
fn conversations_are_answered() {
    for case in list(&cases()["chat"]) {
        let messages = list(&case["messages"]).iter().map(Value::to_string);
        let mut chat = Chat::new(chat_model()).unwrap();
        chat.messages = messages.collect();
        let mut said = String::new();
        for part in chat.stream_reply().unwrap() {
            if let Part::Content(text) = part.unwrap() {
                said.push_str(&text);
            }
        }
        assert_eq!(said, text(&case["reply"]));
        let last: Value = serde_json::from_str(chat.messages.last().unwrap()).unwrap();
        assert_eq!(
            (&last["role"], &last["content"]),
            (&"assistant".into(), &case["reply"])
        );
    }
}

#[test]
fn a_call_has_its_whole_name() {
    let case = &cases()["call"];
    let conversation = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    let options = TokenizeOptions {
        parse_special: true,
        ..Default::default()
    };
    let mut reply = Reply::new(chat_model(), conversation, &ReplyOptions::default()).unwrap();
    for token in chat_model()
        .tokenize_with(text(&case["text"]), &options)
        .unwrap()
    {
        reply.push(token).unwrap();
    }
    reply.finish().unwrap();
    match reply.next_part().unwrap() {
        Some(Part::Call { name, .. }) => assert_eq!(name, text(&case["name"])),
        other => panic!("{other:?}"),
    }
    assert_eq!(reply.next_part().unwrap(), None);
}

#[cfg(feature = "grammar")]
#[test]
fn a_document_fulfils_the_schema() {
    let vocabulary = qinfer::Vocabulary::new(model()).unwrap();
    let schema = cases()["schema"].to_string();
    let grammar = qinfer::Grammar::json_schema(&vocabulary, &schema, &Default::default()).unwrap();
    for seed in 0..5 {
        let mut session = prompted("Lily: ");
        let options = qinfer::SamplerOptions {
            temperature: 1.5,
            seed,
            ..Default::default()
        };
        session.set_sampler(&options).unwrap();
        session.set_grammar(&grammar).unwrap();
        let done = session.generate(&up_to(200)).unwrap();
        assert_eq!(done.finish, Finish::End);
        let document: Value = serde_json::from_str(&done.text).unwrap();
        assert!(text(&document["name"]).chars().count() <= 12);
        assert!([4, 5].contains(&number(&document["age"])));
        assert_eq!(document.as_object().unwrap().len(), 2);
    }
}

#[test]
fn a_hook_bans_a_token_and_sees_every_token() {
    struct Ban {
        token: usize,
        seen: std::sync::mpsc::Sender<Token>,
    }
    impl qinfer::LogitsHook for Ban {
        fn apply(&mut self, logits: &mut [f32]) -> ControlFlow<()> {
            logits[self.token] = f32::NEG_INFINITY;
            ControlFlow::Continue(())
        }
        fn accept(&mut self, token: Token) -> ControlFlow<()> {
            self.seen.send(token).unwrap();
            ControlFlow::Continue(())
        }
    }
    let case = &cases()["hook"];
    let (sender, seen) = std::sync::mpsc::channel();
    let mut session = prompted(text(&case["prompt"]));
    let token = number(&case["ban"]) as usize;
    session
        .set_logits_hook(Ban {
            token,
            seen: sender,
        })
        .unwrap();
    let done = session
        .generate(&up_to(number(&case["new_tokens"])))
        .unwrap();
    drop(session);
    assert_eq!(done.text, text(&case["text"]));
    assert_eq!(seen.iter().collect::<Vec<_>>(), ids(&case["ids"]));
}

#[test]
fn a_cache_with_prefixes_serves_the_second_session() {
    let case = &cases()["prefix"];
    let options = KvCacheOptions {
        prefix: true,
        budget_blocks: number(&case["budget_blocks"]).into(),
        ..Default::default()
    };
    let cache = KvCache::new(model(), &options).unwrap();
    let prompt = text(&case["text"]).repeat(number(&case["times"]) as usize);
    for expects_cached in [false, true] {
        let mut session = session_of(&cache, 0);
        session.append_text(&prompt).unwrap();
        let done = session.generate(&up_to(1)).unwrap();
        assert_eq!(done.cached_tokens > 0, expects_cached);
    }
}

#[test]
fn forks_and_snapshots_go_on_with_the_same_tokens() {
    let case = &cases()["snapshot"];
    let (folder, store) = (Folder::new(), Store::default());
    let mut session = prompted(text(&case["prompt"]));
    session.generate(&up_to(number(&case["before"]))).unwrap();
    let mut fork = session.fork().unwrap();
    session.save(folder.join("snapshot")).unwrap();
    let options = SnapshotOptions {
        files: store.handle(),
        ..Default::default()
    };
    session.save_with(text(&case["name"]), &options).unwrap();
    assert_eq!(store.names(), [text(&case["name"])]);
    let cache = session.cache().clone();
    let mut from_file = Session::load(&cache, folder.join("snapshot")).unwrap();
    let from_store = Session::load_with(&cache, text(&case["name"]), &options).unwrap();
    assert!(!from_store.recovered && !from_store.other_bits);
    assert_eq!(from_store.tokens as usize, session.len());
    assert_eq!(store.open_files(), 0);
    let mut from_store = from_store.session;
    let after = up_to(number(&case["after"]));
    session.generate(&after).unwrap();
    for other in [&mut fork, &mut from_file, &mut from_store] {
        other.generate(&after).unwrap();
        assert_eq!(other.tokens().unwrap(), session.tokens().unwrap());
    }
}

#[test]
fn sessions_of_one_cache_run_on_threads_of_their_own() {
    let case = &cases()["concurrent"];
    let cache = cache(number(&case["budget_blocks"]).into());
    let greedy = list(&cases()["greedy"]);
    std::thread::scope(|scope| {
        for at in 0..number(&case["sessions"]) as usize {
            let (cache, wanted) = (&cache, &greedy[at % greedy.len()]);
            scope.spawn(move || {
                let mut session = session_of(cache, number(&case["max_tokens"]));
                for _ in 0..number(&case["rounds"]) {
                    let prompt = model().tokenize(text(&wanted["prompt"])).unwrap();
                    session.set_tokens(&prompt).unwrap();
                    let done = session
                        .generate(&up_to(number(&wanted["new_tokens"])))
                        .unwrap();
                    assert_eq!(done.text, text(&wanted["text"]));
                }
            });
        }
    });
}

/// The call of an error case, as the README beside the cases says.
fn provoke(case: &Value) -> Result<(), Error> {
    let path = || root().join(text(&case["path"]));
    match text(&case["call"]) {
        "load" => Model::load(path(), LoadOptions::default()).map(drop),
        "append" => Session::for_model(model())?.append(&[1, number(&case["token"]) as Token]),
        "sample" => Session::for_model(model())?.sample().map(drop),
        "cpu_target" => Runtime::new(&RuntimeOptions {
            cpu_target: Some(text(&case["name"]).into()),
            ..Default::default()
        })
        .map(drop),
        "budget" => {
            let options = LoadOptions {
                memory_budget_bytes: number(&case["bytes"]).into(),
                ..Default::default()
            };
            Model::load(root().join(text(&cases()["model"])), options).map(drop)
        }
        "files_io" => {
            let store = Store::default();
            store.set_fault("open", Fault::Fail(Status::Io));
            let options = SnapshotOptions {
                files: store.handle(),
                ..Default::default()
            };
            Session::load_with(&cache(1), "a store of the host", &options).map(drop)
        }
        "buffer" => {
            let mut session = begun();
            session.evaluate()?;
            session.copy_logits(0, &mut [0.0]).map(drop)
        }
        "kv_full" => {
            let mut session = session_of(&cache(1), 0);
            session.append(&[1; 100])?;
            session.evaluate()
        }
        "context_full" => session_of(&cache(1), 4).append(&[1; 5]),
        "cancelled" => {
            let cancel = Cancel::new()?;
            cancel.request();
            begun().evaluate_with(&EvalOptions {
                cancel: Some(cancel),
                ..Default::default()
            })
        }
        "ban_all" => {
            let mut session = begun();
            session.evaluate()?;
            let n_vocab = model().info().n_vocab as Token;
            let all: Vec<_> = (0..n_vocab)
                .map(|token| (token, f32::NEG_INFINITY))
                .collect();
            session.set_bias(&all)?;
            session.sample().map(drop)
        }
        "snapshot" => Session::load(&cache(1), path()).map(drop),
        "save" => begun().save(Folder::new().join(text(&case["path"]))),
        other => panic!("{other} is no call that is known here"),
    }
}

#[test]
fn calls_that_fail_give_the_status_the_message_and_the_detail() {
    for case in list(&cases()["errors"]) {
        let error = provoke(case).unwrap_err();
        assert_eq!(
            i64::from(error.status().code()),
            case["status"],
            "{case} {error}"
        );
        assert!(
            error.message().contains(text(&case["says"])),
            "{case} {error}"
        );
        assert!(!error.message().is_empty(), "{case}");
        if let Some(detail) = case.get("detail") {
            assert_eq!(error.detail(), *detail, "{case} {error}");
        }
    }
}
