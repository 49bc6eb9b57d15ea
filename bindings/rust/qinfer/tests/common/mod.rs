//! What the tests share: the cases of all bindings, the models, folders that are removed, and a store in memory.
#![allow(dead_code, missing_docs)] // Each test program uses a part of it.

pub mod engines;
pub mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use qinfer::{
    GenerateOptions, KvCache, KvCacheOptions, LoadOptions, Model, Runtime, RuntimeOptions, Session,
    SessionOptions, Token,
};
use serde_json::Value;

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// bindings/conformance/cases.json.
pub fn cases() -> &'static Value {
    static CASES: OnceLock<Value> = OnceLock::new();
    CASES.get_or_init(|| {
        let path = root().join("bindings/conformance/cases.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    })
}

pub fn runtime() -> Runtime {
    Runtime::new(&RuntimeOptions {
        threads: 1,
        ..Default::default()
    })
    .unwrap()
}

pub fn load(key: &str) -> Model {
    let options = LoadOptions {
        runtime: Some(runtime()),
        ..Default::default()
    };
    Model::load(root().join(text(&cases()[key])), options).unwrap()
}

pub fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| load("model"))
}

pub fn chat_model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| load("chat_model"))
}

/// A session with a prompt.
pub fn prompted(prompt: &str) -> Session {
    let mut session = Session::for_model(model()).unwrap();
    session.append_text(prompt).unwrap();
    session
}

/// A session with the first prompt of the cases.
pub fn begun() -> Session {
    prompted(text(&cases()["greedy"][0]["prompt"]))
}

pub fn cache(budget_blocks: u64) -> KvCache {
    let options = KvCacheOptions {
        budget_blocks,
        ..Default::default()
    };
    KvCache::new(model(), &options).unwrap()
}

pub fn session_of(cache: &KvCache, max_tokens: u32) -> Session {
    let options = SessionOptions {
        max_tokens,
        ..Default::default()
    };
    Session::new(cache, &options).unwrap()
}

pub fn up_to(max_tokens: u32) -> GenerateOptions {
    GenerateOptions {
        max_tokens,
        ..Default::default()
    }
}

pub fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

pub fn number(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

pub fn ids(value: &Value) -> Vec<Token> {
    list(value).iter().map(|id| number(id) as Token).collect()
}

/// What `call` panics with, as text.
pub fn panic_of<T>(call: impl FnOnce() -> T) -> String {
    let payload = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => payload,
    };
    payload.downcast_ref::<&str>().map_or_else(
        || payload.downcast_ref::<String>().unwrap().clone(),
        |text| text.to_string(),
    )
}

/// An empty folder that is removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("qinfer-rust-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
