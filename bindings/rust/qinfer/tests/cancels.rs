//! Requests from another thread: calls end soon after, and the session goes on at once.

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::*;
use qinfer::{
    Cancel, Error, EvalOptions, GenerateOptions, LoadOptions, Model, Pooling, Runtime,
    RuntimeOptions, Session, SessionOptions, Status,
};
use serde_json::{json, Map, Value};

/// How long a call may take after the request.
const SOON: Duration = Duration::from_millis(500);

/// A session with a prompt that takes seconds.
fn slow(embeddings: bool) -> Session {
    let runtime = RuntimeOptions {
        threads: 1,
        cpu_target: Some("reference".into()),
        ..Default::default()
    };
    let options = LoadOptions {
        runtime: Some(Runtime::new(&runtime).unwrap()),
        ..Default::default()
    };
    let model = Model::load(root().join(text(&cases()["chat_model"])), options).unwrap();
    let cache = qinfer::KvCache::new(&model, &Default::default()).unwrap();
    let options = SessionOptions {
        embeddings,
        ..Default::default()
    };
    let mut session = Session::new(&cache, &options).unwrap();
    let n = model.info().context_tokens as i32 - 4;
    let tokens: Vec<_> = (0..n).map(|at| 5 + at % 50).collect();
    session.append(&tokens).unwrap();
    session
}

/// Makes a call, and requests its cancel in the midst of it.
fn ends_soon<T>(call: impl FnOnce(&Cancel) -> Result<T, Error>) {
    let cancel = Cancel::new().unwrap();
    let requests = cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let at = Instant::now();
        requests.request();
        at
    });
    let result = call(&cancel);
    let took = Instant::now().duration_since(thread.join().unwrap());
    assert_eq!(result.map(drop).unwrap_err().status(), Status::Cancelled);
    assert!(took < SOON, "the call went on for {took:?}");
}

fn eval(cancel: &Cancel) -> EvalOptions {
    EvalOptions {
        cancel: Some(cancel.clone()),
        ..Default::default()
    }
}

fn generate(cancel: &Cancel) -> GenerateOptions {
    GenerateOptions {
        cancel: Some(cancel.clone()),
        ..Default::default()
    }
}

#[test]
fn a_request_ends_a_prompt_soon() {
    let mut session = slow(false);
    let tokens = session.tokens().unwrap();
    for call in ["evaluate", "generate", "stream"] {
        session.set_tokens(&[]).unwrap();
        session.append(&tokens).unwrap();
        ends_soon(|cancel| match call {
            "evaluate" => session.evaluate_with(&eval(cancel)),
            "generate" => session.generate(&generate(cancel)).map(drop),
            _ => session
                .stream(&generate(cancel))?
                .find_map(Result::err)
                .map_or(Ok(()), Err),
        });
        assert!(session.pending() > 0 && session.len() == tokens.len());
        session.truncate(3).unwrap();
        session.evaluate().unwrap();
        assert_eq!(session.generate(&up_to(2)).unwrap().new_tokens, 2, "{call}");
    }
}

#[test]
fn a_request_ends_embeddings_soon() {
    let mut session = slow(true);
    ends_soon(|cancel| session.evaluate_with(&eval(cancel)));
    let error = session.embedding(Pooling::Mean).unwrap_err();
    assert_eq!(error.status(), Status::State);
    let mut fresh = slow(true);
    for session in [&mut session, &mut fresh] {
        session.truncate(3).unwrap();
        session.evaluate().unwrap();
    }
    assert_eq!(
        session.embedding(Pooling::Mean).unwrap(),
        fresh.embedding(Pooling::Mean).unwrap()
    );
}

#[test]
fn a_request_ends_loading_soon() {
    let folder = Folder::new();
    let path = wide_model(&folder);
    let cancel = Cancel::new().unwrap();
    let mut requested = None;
    let mut read = (0, 0);
    let options = LoadOptions {
        no_mmap: true,
        cancel: Some(cancel.clone()),
        progress: Some(Box::new(|done, all| {
            read = (done, all);
            requested.get_or_insert_with(|| {
                cancel.request();
                Instant::now()
            });
            ControlFlow::Continue(())
        })),
        ..Default::default()
    };
    let error = Model::load(&path, options).unwrap_err();
    let took = requested.unwrap().elapsed();
    assert_eq!(error.status(), Status::Cancelled, "{error}");
    assert!(read.0 < read.1 / 2, "{read:?}");
    assert!(took < SOON, "loading went on for {took:?}");
    load("model");
}

/// The story model with tensors of zeros that are eight times as wide: a file of some 230 MB without blocks.
fn wide_model(folder: &Folder) -> PathBuf {
    let from = root().join(text(&cases()["model"]));
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    let wider = |value: &Value| json!(value.as_u64().unwrap() * 8);
    let config = fs::read(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    for name in ["hidden_size", "intermediate_size", "head_dim"] {
        config[name] = wider(&config[name]);
    }
    fs::write(folder.join("config.json"), config.to_string()).unwrap();

    let weights = fs::read(from.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let mut header: Map<String, Value> = serde_json::from_slice(&weights[8..8 + length]).unwrap();
    header.remove("__metadata__");
    let mut so_far = 0;
    for tensor in header.values_mut() {
        let mut size = 2; // BF16
        for n in tensor["shape"].as_array_mut().unwrap() {
            if *n != config["vocab_size"] {
                *n = wider(n);
            }
            size *= n.as_u64().unwrap();
        }
        tensor["data_offsets"] = json!([so_far, so_far + size]);
        so_far += size;
    }
    let mut text = serde_json::to_string(&header).unwrap();
    text.push_str(&" ".repeat(8 - text.len() % 8));
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    let path = folder.join("model.safetensors");
    fs::write(&path, &bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(bytes.len() as u64 + so_far).unwrap();
    folder.join("")
}
