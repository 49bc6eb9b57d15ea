//! Engines that are closed or dropped at any moment, and hooks that panic, wait, or hold the engine that calls them.

mod common;

use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::engines::*;
use common::*;
use qinfer::{Engine, Job, KvCache, LogitsHook, RequestOptions, Session, Status, Token};

/// Threads of this process that are engines'.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "qinfer-engine").count()
}

/// The system lists a thread a moment longer than it is waited for.
fn no_thread_is_left() {
    let begin = Instant::now();
    while threads() != 0 {
        assert!(begin.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// One test at a time: they count the threads of the process.
fn one_test() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// That the session has its prompt, and goes on from there.
fn goes_on(mut session: Session) {
    session.truncate(4).unwrap();
    let generated = session.generate(&up_to(16)).unwrap();
    assert_eq!(generated.text, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn closing_ends_requests_that_are_read() {
    let _one = one_test();
    let cache = cache(60);
    let engine = engine_of(&cache);
    let mut job = submit(&engine, greedy(&cache), 150);
    assert!(job.next().unwrap().is_ok());
    assert_eq!(threads(), 1);
    engine.close();
    no_thread_is_left();
    let last = job.by_ref().last().unwrap().unwrap_err();
    assert_eq!(last.status(), Status::State);
    assert!(last.message().contains("the engine was closed"), "{last}");
    assert!(job.next().is_none());
    goes_on(job.into_session());
    engine.close();
    let refused = engine
        .submit(greedy(&cache), &up_to(1), &RequestOptions::default())
        .unwrap_err();
    assert_eq!(refused.error.status(), Status::State);
    assert!(refused.error.message().contains("closed"), "{refused}");
    goes_on(refused.session);
    assert_eq!(engine.stats().unwrap_err().status(), Status::State);
    assert!(format!("{engine:?}").contains("Engine"));
}

#[test]
fn closing_at_any_moment_leaves_no_reader_waiting() {
    let _one = one_test();
    for i in 0..60 {
        let cache = cache(60);
        let engine = engine_of(&cache);
        std::thread::scope(|scope| {
            for at in 0..4 {
                let (engine, session) = (engine.clone(), greedy(&cache));
                scope.spawn(move || {
                    let job = match engine.submit(session, &up_to(20), &RequestOptions::default()) {
                        Ok(job) => job,
                        Err(refused) => return assert_eq!(refused.error.status(), Status::State),
                    };
                    if at == 3 {
                        return goes_on(job.into_session());
                    }
                    let (session, generated) = job.finish();
                    match generated {
                        Ok(generated) => assert_eq!(generated.new_tokens, 20),
                        Err(error) => assert_eq!(error.status(), Status::State, "{error}"),
                    }
                    goes_on(session);
                });
            }
            std::thread::sleep(Duration::from_micros(200 * i));
            for _ in 0..2 {
                scope.spawn(|| {
                    engine.close();
                    assert!(engine.stats().is_err());
                });
            }
        });
        no_thread_is_left();
        assert_eq!(cache.stats().unwrap().blocks_used, 0);
    }
}

#[test]
fn jobs_keep_the_engine_and_the_last_one_ends_it() {
    let _one = one_test();
    let cache = cache(60);
    let (first, second) = {
        let engine = engine_of(&cache);
        (
            submit(&engine, greedy(&cache), 16),
            submit(&engine, greedy(&cache), 150),
        )
    };
    let (_, generated) = first.finish();
    assert_eq!(generated.unwrap().text, text(&cases()["greedy"][0]["text"]));
    assert_eq!(threads(), 1);
    drop(second);
    no_thread_is_left();
    assert_eq!(cache.stats().unwrap().blocks_used, 0);
}

#[test]
fn an_engine_that_is_dropped_at_once_is_gone() {
    let _one = one_test();
    let begin = Instant::now();
    for _ in 0..20 {
        let cache = cache(60);
        drop(engine_of(&cache));
        drop(submit(&engine_of(&cache), greedy(&cache), 150));
        assert_eq!(cache.stats().unwrap().blocks_used, 0);
    }
    no_thread_is_left();
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// Panics where it is told.
struct Faulty {
    at: &'static str,
    left: u32,
    dropped: Arc<Mutex<u32>>,
}

impl Faulty {
    fn at(&mut self, here: &str) {
        if self.at == here {
            self.left -= 1;
            assert!(self.left > 0, "{here} of the hook");
        }
    }
}

impl LogitsHook for Faulty {
    fn apply(&mut self, _: &mut [f32]) -> ControlFlow<()> {
        self.at("apply");
        ControlFlow::Continue(())
    }
    fn accept(&mut self, _: Token) -> ControlFlow<()> {
        self.at("accept");
        match self.at {
            "break" => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        *self.dropped.lock().unwrap() += 1;
        assert!(self.at != "drop", "drop of the hook");
    }
}

fn faulty(cache: &KvCache, at: &'static str, dropped: &Arc<Mutex<u32>>) -> Session {
    let mut session = greedy(cache);
    let dropped = dropped.clone();
    let left = 4;
    session
        .set_logits_hook(Faulty { at, left, dropped })
        .unwrap();
    session
}

#[test]
fn a_panic_of_a_hook_comes_out_of_its_job_alone() {
    let _one = one_test();
    let cache = cache(60);
    let engine = engine_of(&cache);
    let dropped = Arc::default();
    for at in ["apply", "accept"] {
        // The others' hooks, and other panics, are of the same steps.
        let mut jobs: Vec<Job> = ["none", at, "none", at, "break"]
            .iter()
            .map(|at| submit(&engine, faulty(&cache, at, &dropped), 16))
            .collect();
        let broken = jobs.pop().unwrap();
        assert_eq!(broken.finish().1.unwrap_err().status(), Status::Cancelled);
        for (mut job, fails) in jobs.into_iter().zip([false, true, false, true]) {
            if fails {
                let said = panic_of(|| while job.next().is_some() {});
                assert_eq!(said, format!("{at} of the hook"));
                assert!(job.next().is_none());
                let mut session = job.into_session();
                session.clear_logits_hook().unwrap();
                goes_on(session);
            } else {
                let generated = job.finish().1.unwrap();
                assert_eq!(generated.text, text(&cases()["greedy"][0]["text"]));
            }
        }
    }
    assert_eq!(*dropped.lock().unwrap(), 10);
    // finish() panics, too; into_session() and what is dropped do not.
    let said = panic_of(|| submit(&engine, faulty(&cache, "apply", &dropped), 16).finish());
    assert_eq!(said, "apply of the hook");
    let job = submit(&engine, faulty(&cache, "apply", &dropped), 16);
    std::thread::sleep(Duration::from_millis(50));
    assert!(job.into_session().len() < 4 + 16);
    drop(submit(&engine, faulty(&cache, "drop", &dropped), 150));
    drop(submit(&engine, faulty(&cache, "apply", &dropped), 150));
    let mut job = submit(&engine, greedy(&cache), 5);
    assert!(job.by_ref().all(|piece| piece.is_ok()));
    drop(engine);
    drop(job);
    assert_eq!(*dropped.lock().unwrap(), 14);
    no_thread_is_left();
}

/// What a test does in a hook, once.
type Does = Box<dyn FnOnce(&Engine) + Send>;

fn session_that(cache: &KvCache, engine: &Engine, does: Does) -> Session {
    let mut session = greedy(cache);
    let (engine, mut does) = (engine.clone(), Some(does));
    session
        .set_logits_hook(move |_: &mut [f32]| {
            if let Some(does) = does.take() {
                does(&engine);
            }
        })
        .unwrap();
    session
}

#[test]
fn a_hook_may_use_the_engine_that_calls_it() {
    let _one = one_test();
    let cache = cache(60);
    // It submits, and does not wait.
    let engine = engine_of(&cache);
    let (give, take) = std::sync::mpsc::channel();
    let of_hook = cache.clone();
    let session = session_that(
        &cache,
        &engine,
        Box::new(move |engine| {
            let mut job = submit(engine, greedy(&of_hook), 16);
            let error = job.next().unwrap().unwrap_err();
            assert_eq!(error.status(), Status::State, "{error}");
            assert!(error.message().contains("hook"), "{error}");
            assert!(job.next().is_none());
            // Without its handle: the engine has it.
            assert!(job.into_session().as_ptr().is_null());
            give.send(submit(engine, greedy(&of_hook), 16)).unwrap();
        }),
    );
    let (session, generated) = submit(&engine, session, 16).finish();
    assert_eq!(generated.unwrap().text, text(&cases()["greedy"][0]["text"]));
    let (_, generated) = take.recv().unwrap().finish();
    assert_eq!(generated.unwrap().text, text(&cases()["greedy"][0]["text"]));
    drop(session);
    drop(engine);
    drop(take);
    no_thread_is_left();

    // It closes.
    let engine = engine_of(&cache);
    let session = session_that(&cache, &engine, Box::new(Engine::close));
    let (session, ended) = submit(&engine, session, 150).finish();
    let error = ended.unwrap_err();
    assert_eq!(error.status(), Status::State, "{error}");
    goes_on(session);
    engine.close();
    no_thread_is_left();

    // It has the last handle of the engine, which its thread drops.
    let engine = engine_of(&cache);
    let session = session_that(&cache, &engine, Box::new(|_| ()));
    drop(submit(&engine, session, 150));
    drop(engine);
    no_thread_is_left();
    assert_eq!(cache.stats().unwrap().blocks_used, 0);
}

#[test]
fn a_forgotten_job_leaves_others_alone() {
    let _one = one_test();
    let cache = cache(60);
    let engine = engine_of(&cache);
    std::mem::forget(submit(&engine, greedy(&cache), 5));
    let (session, generated) = submit(&engine, greedy(&cache), 16).finish();
    assert_eq!(generated.unwrap().new_tokens, 16);
    goes_on(session);
    engine.close();
    no_thread_is_left();
}

#[test]
fn a_program_that_closes_nothing_ends() {
    let _one = one_test();
    const CHILD: &str = "QINFER_TEST_CLOSES_NOTHING";
    if std::env::var_os(CHILD).is_some() {
        let cache = cache(60);
        let engine = engine_of(&cache);
        for _ in 0..4 {
            let mut job = submit(&engine, greedy(&cache), 0);
            job.next().unwrap().unwrap();
            std::mem::forget(job);
        }
        std::mem::forget(engine);
        return; // while they are drawn
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_that_closes_nothing_ends"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
