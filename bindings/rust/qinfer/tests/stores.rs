//! Stores: conversations that are kept in a folder go on in other caches, with the same text.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use qinfer::{
    Cancel, Engine, Error, KeptOptions, KvCache, KvCacheOptions, KvStore, Session, Status, Token,
};

const PLENTY: u64 = 1 << 30;
const BLOCK: usize = 32;

/// Tokens of some blocks.
fn story() -> Vec<Token> {
    let case = &cases()["prefix"];
    let story = text(&case["text"]).repeat(number(&case["times"]) as usize);
    let tokens = model().tokenize(&story).unwrap();
    assert!(tokens.len() > 2 * BLOCK);
    tokens
}

/// How many of n tokens fill blocks.
fn full(n: usize) -> usize {
    n / BLOCK * BLOCK
}

fn cache() -> KvCache {
    let options = KvCacheOptions {
        prefix: true,
        budget_blocks: 32,
        ..Default::default()
    };
    KvCache::new(model(), &options).unwrap()
}

/// A session that has gone on after the tokens, and its new text.
fn told(cache: &KvCache, tokens: &[Token]) -> (Session, String) {
    let mut session = session_of(cache, 0);
    session.append(tokens).unwrap();
    let text = session.generate(&up_to(12)).unwrap().text;
    (session, text)
}

fn any() -> KeptOptions {
    KeptOptions::default()
}

fn of(tenant: &str) -> KeptOptions {
    KeptOptions {
        tenant: tenant.into(),
        ..Default::default()
    }
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>, says: &str) -> Status {
    let error = result.unwrap_err();
    assert!(error.message().contains(says), "{error}");
    error.status()
}

#[test]
fn a_conversation_goes_on_in_another_cache() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let (tokens, kept, wanted, before) = {
        let cache = cache();
        let store = KvStore::open(&cache, &path, PLENTY).unwrap();
        assert_eq!(store.cache().as_ptr(), cache.as_ptr());
        let (mut session, _) = told(&cache, &story());
        let tokens = session.tokens().unwrap();
        let kept = store.keep(&mut session, &any()).unwrap();
        assert_eq!(kept, full(tokens.len() - 1)); // the last one is pending
        let stats = store.stats().unwrap();
        assert_eq!(stats.files, (kept / BLOCK) as u64);
        assert_eq!((stats.written, stats.read), (stats.files, 0));
        assert!(stats.bytes > 0);
        let wanted = session.generate(&up_to(12)).unwrap().text;
        (tokens, kept, wanted, stats)
    };
    let cache = cache();
    let store = KvStore::open(&cache, &path, PLENTY).unwrap();
    for _ in 0..2 {
        // The second time the cache has them.
        assert_eq!(store.fetch(&tokens, &any()).unwrap(), kept);
    }
    let stats = store.clone().stats().unwrap();
    assert_eq!((stats.files, stats.bytes), (before.files, before.bytes));
    assert_eq!((stats.read, stats.written), (before.written, 0));
    assert_eq!((stats.removed, stats.damaged), (0, 0));
    let (session, text) = told(&cache, &tokens);
    assert_eq!(text, wanted);
    assert_eq!(session.metrics().unwrap().cached_tokens, kept as u64);
}

#[test]
fn an_engine_goes_on_with_what_is_fetched() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let (mut session, _) = told(&cache(), &story());
    let tokens = session.tokens().unwrap();
    let first = KvStore::open(session.cache(), &path, PLENTY).unwrap();
    let kept = first.keep(&mut session, &any()).unwrap();
    drop(first);
    let cache = cache();
    let store = KvStore::open(&cache, &path, PLENTY).unwrap();
    store.fetch(&tokens, &any()).unwrap();
    let mut session = session_of(&cache, 200);
    session.append(&tokens).unwrap();
    let engine = Engine::new(&cache, &Default::default()).unwrap();
    let job = engine
        .submit(session, &up_to(40), &Default::default())
        .unwrap();
    let (mut session, done) = job.finish();
    assert_eq!(done.unwrap().cached_tokens as usize, kept);
    assert!(store.keep(&mut session, &any()).unwrap() > kept);
}

#[test]
fn tenants_find_their_own() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let mut tokens = story();
    {
        let cache = cache();
        let store = KvStore::open(&cache, &path, PLENTY).unwrap();
        store
            .keep(&mut told(&cache, &tokens).0, &of("Zoë"))
            .unwrap();
    }
    let n = full(tokens.len());
    tokens.push(1);
    for (tenant, found) in [("", 0), ("Zoe", 0), ("Zoë\n", 0), ("Zoë", n)] {
        let store = KvStore::open(&cache(), &path, PLENTY).unwrap();
        assert_eq!(store.fetch(&tokens, &of(tenant)).unwrap(), found);
    }
}

#[test]
fn what_was_used_longest_ago_makes_room_and_damage_is_seen() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let cache = cache();
    let tokens = story();
    let store = KvStore::open(&cache, &path, PLENTY).unwrap();
    store.keep(&mut told(&cache, &tokens).0, &any()).unwrap();
    let stats = store.stats().unwrap();
    let size = stats.bytes / stats.files;
    drop(store);
    let store = KvStore::open(&cache, &path, size).unwrap();
    let now = store.stats().unwrap();
    assert_eq!((now.files, now.removed), (1, stats.files - 1));
    drop(store);
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        if entry.metadata().unwrap().len() == size {
            fs::write(entry.path(), "damaged").unwrap();
        }
    }
    let store = KvStore::open(&self::cache(), &path, PLENTY).unwrap();
    assert_eq!(store.fetch(&tokens, &any()).unwrap(), 0);
    assert_eq!(store.stats().unwrap().damaged, 1);
}

#[test]
fn folders_and_caches_that_cannot_be_are_errors() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let cache = cache();
    let open = |path: &Path, max_bytes| KvStore::open(&cache, path, max_bytes);
    let store = open(&path, PLENTY).unwrap();
    assert_eq!(status(open(&path, PLENTY), "in use"), Status::State);
    let other = store.clone();
    drop(store);
    assert_eq!(status(open(&path, PLENTY), "in use"), Status::State);
    drop(other);
    drop(open(&path, PLENTY).unwrap());
    let plain = common::cache(4);
    let refused = status(KvStore::open(&plain, &path, PLENTY), "QINFER_CACHE_PREFIX");
    assert_eq!(refused, Status::Unsupported);
    let refused = status(open(&folder.join("a/b"), PLENTY), "a/b");
    assert_eq!(refused, Status::NotFound);
    let refused = status(open("/dev/null".as_ref(), PLENTY), "/dev/null");
    assert_eq!(refused, Status::Io);
    let refused = status(open(&path, 0), "max_bytes");
    assert_eq!(refused, Status::InvalidArgument);
    let refused = status(open("a\0b".as_ref(), PLENTY), "path has a NUL");
    assert_eq!(refused, Status::InvalidArgument);
    fs::write(path.join("secret"), "short").unwrap();
    assert_eq!(status(open(&path, PLENTY), "secret"), Status::Format);
}

#[test]
fn sessions_that_a_store_does_not_keep_are_errors() {
    let folder = Folder::new();
    let path = folder.join("kept");
    let cache = cache();
    let tokens = story();
    let store = KvStore::open(&cache, &path, PLENTY).unwrap();
    let (mut session, _) = told(&cache, &tokens);
    let (mut foreign, _) = told(&self::cache(), &tokens);
    let refused = status(store.keep(&mut foreign, &any()), "another cache");
    assert_eq!(refused, Status::InvalidArgument);
    session.save(folder.join("snapshot")).unwrap();
    let mut loaded = Session::load(&cache, folder.join("snapshot")).unwrap();
    let refused = status(store.keep(&mut loaded, &any()), "snapshot");
    assert_eq!(refused, Status::Unsupported);
    for failed in [
        store.keep(&mut session, &of("a\0b")),
        store.fetch(&tokens, &of("a\0b")),
    ] {
        assert_eq!(status(failed, "tenant has a NUL"), Status::InvalidArgument);
    }
    let cancelled = KeptOptions {
        cancel: Some(Cancel::new().unwrap()),
        ..Default::default()
    };
    let cancel = cancelled.cancel.as_ref().unwrap();
    cancel.request();
    let refused = status(store.keep(&mut session, &cancelled), "");
    assert_eq!(refused, Status::Cancelled);
    assert_eq!(store.stats().unwrap().files, 0);
    cancel.reset();
    assert!(store.keep(&mut session, &cancelled).unwrap() > 0);
    let forgotten = session.stream(&up_to(3)).unwrap();
    std::mem::forget(forgotten);
    let refused = status(store.keep(&mut session, &any()), "session is NULL");
    assert_eq!(refused, Status::InvalidArgument);
    drop(store);

    let store = KvStore::open(&self::cache(), &path, PLENTY).unwrap();
    cancel.request();
    let refused = status(store.fetch(&tokens, &cancelled), "");
    assert_eq!(refused, Status::Cancelled);
    for few in [&[][..], &[1], &[1; 5000], &[-1; 100], &[Token::MAX; 100]] {
        assert_eq!(store.fetch(few, &any()).unwrap(), 0);
    }
    assert!(store.fetch(&tokens, &any()).unwrap() > 0);
}

#[test]
fn a_store_keeps_its_cache_and_is_dropped_in_any_order() {
    let folder = Folder::new();
    let tokens = story();
    let (store, mut session) = {
        let cache = cache();
        let store = KvStore::open(&cache, folder.join("kept"), PLENTY).unwrap();
        (store, told(&cache, &tokens).0)
    };
    assert!(format!("{store:?}").starts_with("KvStore(KvCache("));
    assert!(store.keep(&mut session, &any()).unwrap() > 0);
    drop(session);
    assert!(store.fetch(&tokens, &any()).unwrap() > 0);
    assert!(!store.as_ptr().is_null());
}

#[test]
fn threads_share_a_store() {
    let folder = Folder::new();
    let cache = cache();
    let tokens = story();
    let store = KvStore::open(&cache, folder.join("kept"), PLENTY).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for at in 0..4 {
            let (store, cache, tokens, ended) = (store.clone(), &cache, &tokens, &ended);
            scope.spawn(move || {
                let tokens = &tokens[at..];
                let (mut session, _) = told(cache, tokens);
                let name = of(&at.to_string());
                for _ in 0..50 {
                    let kept = store.keep(&mut session, &name).unwrap();
                    assert_eq!(kept, full(session.len() - 1));
                    assert!(store.fetch(tokens, &name).unwrap() >= full(tokens.len() - 1));
                    assert_eq!(store.stats().unwrap().damaged, 0);
                }
                ended.store(true, Ordering::Relaxed);
            });
        }
        while !ended.load(Ordering::Relaxed) {
            assert!(KvStore::open(&cache, folder.join("kept"), PLENTY).is_err());
        }
    });
    drop(store);
    KvStore::open(&cache, folder.join("kept"), PLENTY).unwrap();
}
