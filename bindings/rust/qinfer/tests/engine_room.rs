//! The room of engines: blocks that run out, queues that are full, what is not taken, and who comes first.

mod common;

use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::engines::*;
use common::*;
use qinfer::{
    Engine, EngineOptions, Error, GenerateOptions, Job, KvCache, RequestOptions, SamplerOptions,
    Session, Status,
};

#[test]
fn requests_are_parked_where_blocks_run_out() {
    let cache = cache(9);
    let folder = Folder::new();
    let options = EngineOptions {
        park: Some(folder.join("")),
        ..Default::default()
    };
    let sampler = SamplerOptions {
        temperature: 0.8,
        seed: 3,
        ..Default::default()
    };
    let expected = alone(PROMPTS[0], &sampler, &up_to(150));
    let engine = Engine::new(&cache, &options).unwrap();
    // A session that has ended and is not dropped has blocks, and may leave too few to one that runs.
    let request = RequestOptions {
        drop_session: true,
        ..Default::default()
    };
    let jobs = (0..4).map(|_| {
        let session = asked(&cache, PROMPTS[0], &sampler);
        engine.submit(session, &up_to(150), &request).unwrap()
    });
    for mut job in jobs.collect::<Vec<Job>>() {
        let pieces: Result<Vec<_>, Error> = job.by_ref().collect();
        let tokens = pieces.unwrap().into_iter().filter_map(|piece| piece.token);
        assert!(tokens.eq(expected.1[4..].iter().copied()));
        let generated = job.generated().unwrap();
        assert_eq!(
            (&generated.text, generated.finish),
            (&expected.0, expected.2)
        );
    }
    let stats = engine.stats().unwrap();
    assert!(stats.times_parked > 0, "{stats:?}");
    assert_eq!((stats.parked, stats.parked_bytes), (0, 0));
    assert_eq!(std::fs::read_dir(folder.join("")).unwrap().count(), 0);

    let nowhere = EngineOptions {
        park: Some(folder.join("none")),
        ..Default::default()
    };
    let error = Engine::new(&cache, &nowhere).unwrap_err();
    assert_eq!(error.status(), Status::NotFound, "{error}");
    // Parked requests that are cancelled, and files without room.
    let little = EngineOptions {
        park_bytes: 1,
        ..options.clone()
    };
    for (options, status) in [(&options, None), (&little, Some(Status::NoMemory))] {
        let engine = Engine::new(&cache, options).unwrap();
        let request = RequestOptions {
            drop_session: status.is_some(),
            ..Default::default()
        };
        let jobs = (0..4).map(|_| {
            let session = asked(&cache, PROMPTS[0], &sampler);
            engine.submit(session, &up_to(150), &request).unwrap()
        });
        let jobs: Vec<Job> = jobs.collect();
        if let Some(status) = status {
            let results: Vec<_> = jobs.into_iter().map(|job| job.finish().1).collect();
            assert!(results.iter().any(Result::is_ok), "{results:?}");
            let mut errors = results.into_iter().filter_map(Result::err);
            assert!(errors.all(|error| error.status() == status));
            continue;
        }
        while engine.stats().unwrap().parked == 0 {
            std::thread::sleep(Duration::from_micros(200));
            if engine.stats().unwrap().ended == 4 {
                break;
            }
        }
        let sessions = jobs.into_iter().map(Job::into_session);
        for mut session in sessions.collect::<Vec<_>>() {
            assert!(expected.1.starts_with(&session.tokens().unwrap()));
            session.truncate(4).unwrap();
            assert!(session.pending() > 0);
        }
    }
    assert_eq!(std::fs::read_dir(folder.join("")).unwrap().count(), 0);
    assert!(is_given_back(&cache));
}

#[test]
fn sessions_that_are_dropped_at_the_end_leave_their_blocks_to_others() {
    let cache = cache(9);
    let folder = Folder::new();
    let expected = alone(PROMPTS[0], &samplers()[1], &up_to(150));
    // A parked request would wait ten seconds for blocks that others hold.
    for (park, drop_session) in [(None, true), (Some(folder.join("")), true), (None, false)] {
        let options = EngineOptions {
            park,
            ..Default::default()
        };
        let engine = Engine::new(&cache, &options).unwrap();
        let request = RequestOptions {
            drop_session,
            ..Default::default()
        };
        let jobs = (0..4).map(|_| {
            let session = asked(&cache, PROMPTS[0], &samplers()[1]);
            engine.submit(session, &up_to(150), &request).unwrap()
        });
        let jobs: Vec<Job> = jobs.collect();
        // None is read until all have ended.
        all_end(&engine);
        let results: Vec<_> = jobs.into_iter().map(Job::finish).collect();
        let all_right = results.iter().all(|(_, result)| result.is_ok());
        assert_eq!(all_right, drop_session);
        for (session, result) in results {
            match result {
                Ok(generated) if drop_session => {
                    assert_eq!(generated.text, expected.0);
                    assert!(session.tokens().is_err());
                }
                Ok(generated) => assert_eq!(told(&session, &generated), expected),
                Err(error) => assert_eq!(error.status(), Status::KvFull),
            }
        }
    }
    assert!(is_given_back(&cache));
}

#[test]
fn what_is_refused_comes_back() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let request = RequestOptions::default();
    let refused = |session, options: &GenerateOptions, status: Status, words: &str| {
        let refused = engine.submit(session, options, &request).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(refused.error.status(), status, "{refused}");
        refused.session
    };
    let many = GenerateOptions {
        top_logprobs: Some(65),
        ..up_to(5)
    };
    let session = refused(greedy(&cache), &many, Status::InvalidArgument, "64");
    assert_eq!(ended(submit(&engine, session, 3)).4, 3);
    let empty = refused(session_of(&cache, 0), &up_to(1), Status::State, "prompt");
    assert!(empty.is_empty());
    let reasoning = GenerateOptions {
        max_reasoning_tokens: 1,
        ..up_to(5)
    };
    refused(
        greedy(&cache),
        &reasoning,
        Status::InvalidArgument,
        "no reply",
    );
    let elsewhere = greedy(&common::cache(10));
    refused(elsewhere, &up_to(1), Status::InvalidArgument, "cache");
    let mut away = greedy(&cache);
    std::mem::forget(away.stream(&up_to(1)).unwrap());
    refused(away, &up_to(1), Status::InvalidArgument, "session");

    let small = common::cache(2);
    let engine = engine_of(&small);
    let refused = engine.submit(greedy(&small), &up_to(100), &request);
    let error = Error::from(refused.unwrap_err());
    assert_eq!(error.status(), Status::KvFull);
    let with_a_file = EngineOptions {
        park_bytes: 1,
        ..Default::default()
    };
    let error = Engine::new(&small, &with_a_file).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert_eq!(
        ended(submit(&engine, session_with(&small, "The sun"), 5)).4,
        5
    );
}

fn session_with(cache: &KvCache, prompt: &str) -> Session {
    let mut session = session_of(cache, 60);
    session.append_text(prompt).unwrap();
    session
}

#[test]
fn a_full_queue_refuses() {
    let cache = cache(60);
    let options = EngineOptions {
        max_running: 1,
        max_waiting: 2,
        ..Default::default()
    };
    let engine = Engine::new(&cache, &options).unwrap();
    let mut jobs = Vec::new();
    let refused = loop {
        match engine.submit(greedy(&cache), &up_to(150), &RequestOptions::default()) {
            Ok(job) => jobs.push(job),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.error.status(), Status::NoMemory);
    assert!(refused.error.message().contains("max_waiting"), "{refused}");
    assert_eq!(refused.session.len(), 4);
    let stats = engine.stats().unwrap();
    assert!(stats.waiting + stats.running <= 3, "{stats:?}");
    // When there is room the same session is taken.
    drop(jobs);
    let mut session = refused.session;
    loop {
        match engine.submit(session, &up_to(3), &RequestOptions::default()) {
            Ok(job) => break assert_eq!(ended(job).4, 3),
            Err(refused) => session = refused.session,
        }
        std::thread::yield_now();
    }
}

#[test]
fn priorities_begin_first() {
    let cache = cache(60);
    let options = EngineOptions {
        max_running: 1,
        ..Default::default()
    };
    let engine = Engine::new(&cache, &options).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    // The first one is drawn when the others are there.
    let (begun, begins) = channel();
    let (go_on, told) = channel();
    let noting = |name: &'static str, told: Option<Receiver<()>>| {
        let (mut session, order, begun) = (greedy(&cache), order.clone(), begun.clone());
        let hook = move |_: &mut [f32]| {
            let _ = begun.send(());
            let _ = told.as_ref().map(Receiver::recv);
            order.lock().unwrap().push(name);
        };
        session.set_logits_hook(hook).unwrap();
        session
    };
    let first = submit(&engine, noting("first", Some(told)), 1);
    begins.recv().unwrap();
    let late = submit(&engine, noting("late", None), 1);
    let before = RequestOptions {
        priority: 1,
        ..Default::default()
    };
    let early = engine.submit(noting("early", None), &up_to(1), &before);
    go_on.send(()).unwrap();
    for job in [first, late, early.unwrap()] {
        assert_eq!(ended(job).4, 1);
    }
    assert_eq!(*order.lock().unwrap(), ["first", "early", "late"]);
}
