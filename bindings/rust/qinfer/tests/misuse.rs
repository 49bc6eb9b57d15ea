//! Wrong values: numbers, texts and lists that cannot be, sessions that a forgotten stream has, and files that do not
//! do as they say. Each is an error that names what is wrong, or nothing, and never more than that.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::store::Store;
use common::*;
use qinfer::{
    evaluate, message, plan, Chat, ChatOptions, Detokenizer, EmbeddingOptions, Engine,
    EngineOptions, Error, EvalOptions, File, FileMode, Files, GenerateOptions, KvCache,
    KvCacheOptions, LoadOptions, Model, PlanOptions, Pooling, Reply, ReplyOptions, Runtime,
    RuntimeOptions, SamplerOptions, ScoreOptions, Session, SessionOptions, SnapshotOptions, Status,
    Token, TokenizeOptions,
};

/// That the call failed, and says so in these words.
fn says<T>(result: Result<T, Error>, words: &str) {
    let error = result.map(drop).expect_err(words);
    assert_ne!(error.status(), Status::Internal, "{error}");
    assert!(error.to_string().contains(words), "{error}: {words}");
}

/// What is wrong with one member of a struct.
macro_rules! with {
    ($kind:ident { $($member:ident: $value:expr),* }) => { $kind { $($member: $value,)* ..Default::default() } };
}

#[test]
fn options_that_cannot_be_are_errors() {
    let path = root().join(text(&cases()["model"]));
    let cache = |options: KvCacheOptions| KvCache::new(model(), &options);
    says(
        cache(with!(KvCacheOptions { block_tokens: 33 })),
        "block_tokens",
    );
    says(cache(with!(KvCacheOptions { budget_bytes: 1 })), "budget");
    says(
        cache(with!(KvCacheOptions {
            budget_blocks: u64::MAX
        })),
        "blocks",
    );
    let session = |options| Session::new(&common::cache(1), &options);
    says(
        session(with!(SessionOptions {
            max_tokens: u32::MAX
        })),
        "max_tokens",
    );
    says(
        session(with!(SessionOptions {
            max_logits: u32::MAX
        })),
        "max_logits",
    );
    let runtime = |options| Runtime::new(&options);
    says(
        runtime(with!(RuntimeOptions { threads: u32::MAX })),
        "n_threads",
    );
    says(
        runtime(with!(RuntimeOptions {
            threads: 1,
            cpu_ids: vec![u32::MAX]
        })),
        "cpu",
    );
    says(
        runtime(with!(RuntimeOptions {
            threads: 1,
            cpu_ids: vec![0; 2]
        })),
        "cpu",
    );
    let format = with!(LoadOptions {
        weight_format: Some("q9".into())
    });
    says(
        Model::load(&path, format),
        "weight_format \"q9\" is not known, expected",
    );
    says(
        Model::load(
            &path,
            with!(LoadOptions {
                max_batch_tokens: u32::MAX
            }),
        ),
        "max_batch_tokens",
    );
    says(Model::load("", LoadOptions::default()), "");
    says(plan("", PlanOptions::default()), "");
    for (options, words) in [
        (
            with!(SamplerOptions {
                temperature: f32::NAN
            }),
            "temperature",
        ),
        (with!(SamplerOptions { top_p: 2.0 }), "top_p"),
        (with!(SamplerOptions { min_p: -1.0 }), "min_p"),
        (
            with!(SamplerOptions {
                repeat_penalty: -1.0
            }),
            "repeat_penalty",
        ),
        (
            with!(SamplerOptions {
                presence_penalty: f32::INFINITY
            }),
            "presence_penalty",
        ),
    ] {
        says(begun().set_sampler(&options), words);
    }
    says(begun().set_bias(&[(-1, 1.0)]), "token -1");
    says(
        begun().set_bias(&[(1, f32::NAN)]),
        "the bias of token 1 is nan, expected",
    );
    let keep = with!(EvalOptions { keep_logits: 99 });
    says(begun().evaluate_with(&keep), "keep_logits");
    for (options, words) in [
        (
            with!(GenerateOptions {
                stop: vec!["a".into(); 257]
            }),
            "256",
        ),
        (
            with!(GenerateOptions {
                stop: vec!["a".repeat(4097)]
            }),
            "4096",
        ),
        (
            with!(GenerateOptions {
                top_logprobs: Some(u32::MAX)
            }),
            "64",
        ),
    ] {
        says(begun().generate(&options), words);
        let mut session = begun();
        says(session.stream(&options).unwrap().finish(), words);
        assert_eq!(session.len(), 4);
    }
}

#[test]
fn engines_that_cannot_be_are_errors() {
    let cache = common::cache(1);
    let engine = |options| Engine::new(&cache, &options);
    says(
        engine(with!(EngineOptions {
            max_running: u32::MAX
        })),
        "max_running",
    );
    says(
        engine(with!(EngineOptions {
            max_waiting: u32::MAX
        })),
        "max_waiting",
    );
    says(engine(with!(EngineOptions { park_bytes: 1 })), "park_bytes");
    says(
        engine(with!(EngineOptions {
            park: Some("a\0b".into())
        })),
        "park has a NUL byte at offset 1",
    );
    says(
        engine(with!(EngineOptions {
            park: Some("no/such/folder".into())
        })),
        "no/such/folder",
    );
    // A step of any length.
    for step in [Duration::from_nanos(1), Duration::MAX] {
        let engine = engine(with!(EngineOptions { step: step })).unwrap();
        let job = engine.submit(begun_in(&cache), &up_to(3), &Default::default());
        assert_eq!(job.unwrap().finish().1.unwrap().new_tokens, 3);
    }
}

fn begun_in(cache: &KvCache) -> Session {
    let mut session = session_of(cache, 0);
    session.append_text("Once upon a time").unwrap();
    session
}

#[test]
fn numbers_that_cannot_be_are_errors() {
    let mut session = begun();
    session.evaluate().unwrap();
    for back in [1, usize::MAX] {
        assert!(session.logits(back).is_none());
        let words = back.to_string();
        says(session.copy_logits(back, &mut [0.0; 1024]), &words);
        says(session.logprobs(back, &[1]), &words);
        says(session.top_logprobs(back, 1), &words);
    }
    says(session.top_logprobs(0, usize::MAX), &usize::MAX.to_string());
    says(session.truncate(usize::MAX), &usize::MAX.to_string());
    let mut detokenizer = Detokenizer::new(model()).unwrap();
    let conversation = format!("{{\"messages\": [{}]}}", message("user", "Hi"));
    let mut reply = Reply::new(chat_model(), &conversation, &ReplyOptions::default()).unwrap();
    for token in [-1, Token::MIN, Token::MAX] {
        let words = token.to_string();
        says(session.append(&[1, token]), &words);
        says(session.set_tokens(&[1, token]), &words);
        says(session.logprobs(0, &[1, token]), &words);
        says(session.set_bias(&[(token, 1.0)]), &words);
        says(model().detokenize(&[1, token]), &words);
        says(detokenizer.push(token), &words);
        says(reply.push(token), &words);
        assert!(model().token_bytes(token).is_empty());
    }
    assert_eq!((session.len(), session.pending()), (4, 0));
}

#[test]
fn parts_of_a_text_that_cannot_be_are_errors() {
    let text = "aé<|im_end|>";
    for content in [
        &[(0, usize::MAX)][..],
        &[(usize::MAX, usize::MAX)],
        &[(3, 1)],
        &[(2, 3)],
        &[(3, 5), (1, 3)],
        &[(0, 3), (1, 5)],
    ] {
        let options = with!(TokenizeOptions {
            content: content.iter().map(|part| part.0..part.1).collect()
        });
        let error = chat_model().tokenize_with(text, &options).unwrap_err();
        assert_eq!(
            error.status(),
            Status::InvalidArgument,
            "{content:?}: {error}"
        );
    }
    let little = with!(TokenizeOptions { max_work: 1 });
    says(
        chat_model().tokenize_with(text, &little),
        "more than 1 steps",
    );
}

#[test]
fn empty_lists_are_nothing() {
    let mut session = begun();
    session.evaluate().unwrap();
    session.append(&[]).unwrap();
    session.set_bias(&[]).unwrap();
    assert!(session.logprobs(0, &[]).unwrap().is_empty());
    assert!(session.top_logprobs(0, 0).unwrap().is_empty());
    let error = session.copy_logits(0, &mut []).unwrap_err();
    assert_eq!(
        (error.status(), error.detail()),
        (Status::BufferTooSmall, 1024)
    );
    assert_eq!(model().detokenize(&[]).unwrap(), "");
    assert_eq!(session.set_tokens(&[]).unwrap(), 0);
    assert!(session.tokens().unwrap().is_empty());
    says(model().find_token(""), "");
    says(evaluate(&mut [], &EvalOptions::default()), "n_sessions");
    says(session.evaluate(), "pending");
}

#[test]
fn sessions_that_do_not_go_together_are_errors() {
    let (mut one, mut other) = (begun(), begun());
    let both = &mut [&mut one, &mut other];
    says(evaluate(both, &EvalOptions::default()), "cache");
    assert_eq!((one.pending(), other.pending()), (4, 4));
    let folder = Folder::new();
    one.save(folder.join("saved")).unwrap();
    let foreign = KvCache::new(chat_model(), &KvCacheOptions::default()).unwrap();
    says(Session::load(&foreign, folder.join("saved")), "model");
}

#[test]
fn every_call_of_a_session_that_a_forgotten_stream_has_fails() {
    let mut session = begun();
    std::mem::forget(session.stream(&up_to(1)).unwrap());
    let conversation = format!("{{\"messages\": [{}]}}", message("user", "Hi"));
    let mut reply = Reply::new(chat_model(), &conversation, &ReplyOptions::default()).unwrap();
    let folder = Folder::new();
    let hook = |_: &mut [f32]| ();
    for result in [
        session.append(&[1]),
        session.append_text("Once"),
        session.set_tokens(&[1]).map(drop),
        session.tokens().map(drop),
        session.truncate(0),
        session.fork().map(drop),
        session.set_sampler(&SamplerOptions::default()),
        session.set_bias(&[]),
        session.set_logits_hook(hook),
        session.set_forkable_logits_hook(hook),
        session.clear_logits_hook(),
        session.evaluate(),
        session.evaluate_with(&EvalOptions::default()),
        evaluate(&mut [&mut begun(), &mut session], &EvalOptions::default()),
        session.sample().map(drop),
        session.copy_logits(0, &mut [0.0; 1024]).map(drop),
        session.logprobs(0, &[1]).map(drop),
        session.top_logprobs(0, 1).map(drop),
        session.embedding(Pooling::Default).map(drop),
        session
            .embedding_with(&EmbeddingOptions::default())
            .map(drop),
        session
            .set_pair("q", "d", &ScoreOptions::default())
            .map(drop),
        session.score(&ScoreOptions::default()).map(drop),
        session.info().map(drop),
        session.memory().map(drop),
        session.metrics().map(drop),
        session.save(folder.join("saved")),
        session.save_with(
            "saved",
            &with!(SnapshotOptions {
                files: Store::default().handle()
            }),
        ),
        session.generate(&up_to(1)).map(drop),
        session
            .generate_with_reply(&up_to(1), &mut reply, |_| ControlFlow::Continue(()))
            .map(drop),
        session.stream(&up_to(1)).unwrap().finish().map(drop),
    ] {
        let error = result.unwrap_err();
        let status = error.status();
        assert!(
            [Status::InvalidArgument, Status::State].contains(&status),
            "{error}"
        );
    }
    assert_eq!(
        (session.len(), session.pending(), session.is_empty()),
        (0, 0, true)
    );
    assert!(session.logits(0).is_none() && session.as_mut_ptr().is_null());
    assert!(format!("{session:?}").contains("Session"));
    let mut chat = Chat::with_session(session);
    chat.messages.push(message("user", "Hi"));
    assert!(chat.send("Hi").is_err() && chat.stream("Hi").is_err() && chat.messages.len() == 1);
}

#[test]
fn conversations_that_cannot_be_are_errors() {
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.variables.push(("messages".into(), "1".into()));
    says(chat.send("Hi"), "messages");
    for value in [
        "",
        " ",
        "}",
        "1, \"tools\": []",
        "[1",
        "\"a",
        "\"\\\"",
        "1: 2",
    ] {
        chat.variables[0] = ("mood".into(), value.into());
        says(chat.send("Hi"), "variables[0] is not JSON of one value");
    }
    chat.variables[0] = ("mood".into(), r#" ["}\", ", {"a": 1}] "#.into());
    chat.max_tokens = 1;
    chat.send("Hi").unwrap();
    chat.max_tokens = 0;
    chat.variables.clear();
    for object in ["", "1", "{}, {}", "{", "{}}"] {
        chat.messages = vec![message("user", "Hi"), object.into()];
        says(
            chat.reply_with(|_| ControlFlow::Break(())),
            "messages[1] is not JSON of one object",
        );
        chat.messages.clear();
        chat.tools = vec![object.into()];
        says(chat.send("Hi"), "tools[0] is not JSON of one object");
    }
    chat.tools.clear();
    for options in [
        with!(ChatOptions {
            template_name: Some("a\0b".into())
        }),
        with!(ChatOptions {
            template_text: Some("a\0b".into())
        }),
        with!(ChatOptions {
            now: Some("a\0b".into())
        }),
    ] {
        chat.options = options;
        says(chat.send("Hi"), "NUL");
        says(chat.stream("Hi").map(drop), "NUL");
    }
    says(chat_model().chat_template(Some("a\0b")), "NUL");
    chat.options = ChatOptions::default();
    assert!(chat.messages.is_empty());
    assert_eq!(
        chat.send("Hello!").unwrap(),
        text(&cases()["chat"][0]["reply"])
    );
}

/// A file whose size is wrong, or that maps too little.
#[derive(Clone, Copy)]
struct Odd {
    size: u64,
    maps: bool,
}

impl Files for Odd {
    fn open(&self, name: &str, _: FileMode) -> Result<Box<dyn File>, Status> {
        match name {
            "m" => Ok(Box::new(*self)),
            _ => Err(Status::NotFound),
        }
    }
    fn maps(&self) -> bool {
        self.maps
    }
}

impl File for Odd {
    fn size(&mut self) -> Result<u64, Status> {
        Ok(self.size)
    }
    fn read_at(&mut self, _: u64, data: &mut [u8]) -> Result<(), Status> {
        data.fill(0);
        Ok(())
    }
    fn map(&mut self, _: u64) -> Result<Arc<dyn AsRef<[u8]> + Send + Sync>, Status> {
        Ok(Arc::new([0u8; 8]))
    }
}

#[test]
fn files_that_do_not_do_as_they_say_are_errors() {
    let cache = cache(1);
    for size in [0, 1, 100, 1 << 40, i64::MAX as u64, u64::MAX] {
        for maps in [false, true] {
            let files = || -> Option<Arc<dyn Files>> { Some(Arc::new(Odd { size, maps })) };
            says(Model::load("m", with!(LoadOptions { files: files() })), "m");
            let options = with!(SnapshotOptions { files: files() });
            says(Session::load_with(&cache, "m", &options), "m");
            says(begun().save_with("m", &options), "m");
        }
    }
}
