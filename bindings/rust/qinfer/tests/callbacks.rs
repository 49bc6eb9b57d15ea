//! Callbacks that panic: the process survives, the panic comes out of the call, and the objects go on.

mod common;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use common::store::{Fault, Store};
use common::*;
use qinfer::{
    Chat, GenerateOptions, LoadOptions, LogLevel, LogitsHook, Model, Part, Runtime, RuntimeOptions,
    Session, SnapshotOptions, Status, Token,
};

/// That the session gives the rest of the first case's text.
fn goes_on(session: &mut Session) {
    let case = &cases()["greedy"][0];
    let prompt = model().tokenize(text(&case["prompt"])).unwrap();
    session.set_tokens(&prompt).unwrap();
    assert_eq!(
        session.generate(&up_to(16)).unwrap().text,
        text(&case["text"])
    );
}

#[test]
fn a_panic_for_a_piece_comes_out_of_generate() {
    for top_logprobs in [None, Some(3)] {
        let options = GenerateOptions {
            top_logprobs,
            ..up_to(10)
        };
        let mut session = begun();
        let mut pieces = 0;
        let said = panic_of(|| {
            session.generate_with(&options, |_| {
                pieces += 1;
                assert!(pieces < 3, "the third piece");
                ControlFlow::Continue(())
            })
        });
        assert_eq!((said.as_str(), pieces), ("the third piece", 3));
        assert_eq!(session.len(), 4 + 3);
        goes_on(&mut session);
    }
}

#[test]
fn a_panic_for_progress_comes_out_of_load() {
    let path = root().join(text(&cases()["model"]));
    let said = panic_of(|| {
        let options = LoadOptions {
            progress: Some(Box::new(|_, _| panic!("progress"))),
            ..Default::default()
        };
        Model::load(&path, options)
    });
    assert_eq!(said, "progress");
    assert!(Model::load(&path, LoadOptions::default()).is_ok());
}

#[test]
fn progress_is_told_and_may_cancel() {
    let path = root().join(text(&cases()["model"]));
    let mut last = (0, 0);
    let options = LoadOptions {
        progress: Some(Box::new(|done, total| {
            last = (done, total);
            ControlFlow::Continue(())
        })),
        ..Default::default()
    };
    Model::load(&path, options).unwrap();
    assert!(last.0 == last.1 && last.1 > 0, "{last:?}");
    let options = LoadOptions {
        progress: Some(Box::new(|_, _| ControlFlow::Break(()))),
        ..Default::default()
    };
    let error = Model::load(&path, options).unwrap_err();
    assert_eq!(error.status(), Status::Cancelled);
}

#[test]
fn the_log_is_heard_and_its_panic_comes_out() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let options = RuntimeOptions {
        threads: 1,
        log: Some(Arc::new(move |level, line: &str| {
            assert!(line != "panic" && level <= LogLevel::Debug);
            heard.lock().unwrap().push(line.to_string());
        })),
        log_level: LogLevel::Debug,
        ..Default::default()
    };
    let load = |runtime| LoadOptions {
        runtime: Some(runtime),
        ..Default::default()
    };
    let path = root().join(text(&cases()["model"]));
    let model = Model::load(&path, load(Runtime::new(&options).unwrap())).unwrap();
    assert!(!lines.lock().unwrap().is_empty());
    // The runtime's log outlives the options and the runtime's own handle.
    drop(options);
    let mut session = Session::for_model(&model).unwrap();
    session.append(&[1]).unwrap();
    session.evaluate().unwrap();
    let failing = RuntimeOptions {
        log: Some(Arc::new(|_, _| panic!("log"))),
        log_level: LogLevel::Debug,
        ..Default::default()
    };
    let said = panic_of(|| Model::load(&path, load(Runtime::new(&failing)?)));
    assert_eq!(said, "log");
}

/// A hook that panics or breaks where it is told.
#[derive(Clone)]
struct Faulty {
    at: &'static str,
    panics: bool,
    dropped: Arc<Mutex<u32>>,
}

impl Faulty {
    fn new(at: &'static str, panics: bool) -> Faulty {
        let dropped = Arc::default();
        Faulty {
            at,
            panics,
            dropped,
        }
    }

    fn flow(&self, here: &str) -> ControlFlow<()> {
        if self.at != here {
            return ControlFlow::Continue(());
        }
        assert!(!self.panics, "{here} of the hook");
        ControlFlow::Break(())
    }
}

impl LogitsHook for Faulty {
    fn apply(&mut self, _: &mut [f32]) -> ControlFlow<()> {
        self.flow("apply")
    }
    fn accept(&mut self, _: Token) -> ControlFlow<()> {
        self.flow("accept")
    }
    fn rewind(&mut self, _: usize) -> ControlFlow<()> {
        self.flow("rewind")
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        *self.dropped.lock().unwrap() += 1;
    }
}

#[test]
fn a_hook_that_panics_ends_the_call_and_not_the_session() {
    for at in ["apply", "accept"] {
        let mut session = begun();
        let hook = Faulty::new(at, true);
        let dropped = hook.dropped.clone();
        session.set_logits_hook(hook).unwrap();
        let said = format!("{at} of the hook");
        session.evaluate().unwrap();
        assert_eq!(panic_of(|| session.sample()), said);
        assert_eq!(panic_of(|| session.generate(&up_to(3))), said);
        assert_eq!(
            panic_of(|| session.stream(&up_to(3)).unwrap().finish()),
            said
        );
        // No token was added, and the session came back from its thread.
        assert_eq!(session.len(), 4);
        session.clear_logits_hook().unwrap();
        assert_eq!(*dropped.lock().unwrap(), 1);
        goes_on(&mut session);
    }
}

#[test]
fn a_hook_that_breaks_cancels_the_call() {
    for at in ["apply", "accept"] {
        let mut session = begun();
        session.set_logits_hook(Faulty::new(at, false)).unwrap();
        session.evaluate().unwrap();
        assert_eq!(session.sample().unwrap_err().status(), Status::Cancelled);
        assert_eq!(session.len(), 4);
    }
}

#[test]
fn a_hook_may_refuse_to_take_tokens_back() {
    let mut session = begun();
    session
        .set_logits_hook(Faulty::new("rewind", false))
        .unwrap();
    session.generate(&up_to(3)).unwrap();
    assert_eq!(session.truncate(5).unwrap_err().status(), Status::Cancelled);
    assert_eq!(session.len(), 7);
    session
        .set_logits_hook(Faulty::new("rewind", true))
        .unwrap();
    session.generate(&up_to(3)).unwrap();
    assert_eq!(panic_of(|| session.truncate(8)), "rewind of the hook");
    session.clear_logits_hook().unwrap();
    goes_on(&mut session);
}

#[test]
fn only_forkable_hooks_are_cloned_and_each_is_dropped_once() {
    let hook = Faulty::new("nowhere", true);
    let dropped = hook.dropped.clone();
    let mut session = begun();
    session.set_forkable_logits_hook(hook).unwrap();
    let fork = session.fork().unwrap();
    assert_eq!(fork.info().unwrap().has_logits_hook, 1);
    drop(fork);
    assert_eq!(*dropped.lock().unwrap(), 1);
    session
        .set_logits_hook(Faulty::new("nowhere", true))
        .unwrap();
    assert_eq!(*dropped.lock().unwrap(), 2);
    assert_eq!(session.fork().unwrap().info().unwrap().has_logits_hook, 0);
}

/// A hook whose clone or drop panics.
struct Fragile(&'static str);

impl LogitsHook for Fragile {
    fn apply(&mut self, _: &mut [f32]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Fragile {
        assert!(self.0 != "clone", "clone of the hook");
        Fragile(self.0)
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.0 != "drop", "drop of the hook");
    }
}

#[test]
fn a_clone_or_drop_of_a_hook_that_panics_is_caught() {
    let mut session = begun();
    session.set_forkable_logits_hook(Fragile("clone")).unwrap();
    assert_eq!(panic_of(|| session.fork()), "clone of the hook");
    session.set_logits_hook(Fragile("drop")).unwrap();
    assert_eq!(panic_of(|| session.clear_logits_hook()), "drop of the hook");
    goes_on(&mut session);
    // Nothing leaves the drop of a session, and no later call inherits it.
    session.set_logits_hook(Fragile("drop")).unwrap();
    drop(session);
    goes_on(&mut begun());
}

#[test]
fn a_hook_that_is_refused_is_dropped() {
    let hook = Faulty::new("nowhere", true);
    let dropped = hook.dropped.clone();
    let mut session = begun();
    std::mem::forget(session.stream(&up_to(1)).unwrap());
    assert!(session.set_logits_hook(hook).is_err());
    assert_eq!(*dropped.lock().unwrap(), 1);
}

/// A store that holds a packed model as "m": one that stays mapped, on any machine.
fn packed_store() -> Store {
    let folder = Folder::new();
    let path = root().join(text(&cases()["model"]));
    Model::pack(path, LoadOptions::default(), folder.join("packed")).unwrap();
    let store = Store::mapped();
    store.insert("m", std::fs::read(folder.join("packed")).unwrap());
    store
}

fn load_from(store: &Store) -> Result<Model, qinfer::Error> {
    let options = LoadOptions {
        files: store.handle(),
        ..Default::default()
    };
    Model::load("m", options)
}

#[test]
fn panics_of_a_host_s_files_come_out_of_loading() {
    let store = packed_store();
    for at in ["open", "size", "read_at", "map"] {
        store.set_fault(at, Fault::Panic);
        assert_eq!(panic_of(|| load_from(&store)), format!("{at} of the store"));
        assert_eq!((store.open_files(), store.mapped_files()), (0, 0), "{at}");
        store.clear_fault();
        let model = load_from(&store).unwrap();
        assert_eq!((store.open_files(), store.mapped_files()), (1, 1));
        drop(model);
        assert_eq!((store.open_files(), store.mapped_files()), (0, 0), "{at}");
    }
}

#[test]
fn a_panic_while_a_model_is_dropped_stays_there() {
    let store = packed_store();
    for at in ["unmap", "close"] {
        let model = load_from(&store).unwrap();
        store.set_fault(at, Fault::Panic);
        drop(model);
        assert_eq!((store.open_files(), store.mapped_files()), (0, 0), "{at}");
        store.clear_fault();
        goes_on(&mut begun());
    }
}

#[test]
fn a_mapped_file_lives_as_long_as_what_was_made_from_its_model() {
    let store = packed_store();
    let model = load_from(&store).unwrap();
    let mut session = Session::for_model(&model).unwrap();
    drop(model);
    assert_eq!(store.mapped_files(), 1);
    session.append_text("Once upon a time").unwrap();
    let said = session.generate(&up_to(16)).unwrap().text;
    assert_eq!(said, text(&cases()["greedy"][0]["text"]));
    drop(session);
    assert_eq!((store.open_files(), store.mapped_files()), (0, 0));
}

#[test]
fn a_model_directory_is_read_through_a_host_s_files() {
    let path = root().join(text(&cases()["model"]));
    let store = Store::default();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = format!("m/{}", entry.file_name().into_string().unwrap());
        store.insert(&name, std::fs::read(entry.path()).unwrap());
    }
    let model = load_from(&store).unwrap();
    assert_eq!(store.open_files(), 0);
    let mut session = Session::for_model(&model).unwrap();
    session.append_text("Once upon a time").unwrap();
    let said = session.generate(&up_to(16)).unwrap().text;
    assert_eq!(said, text(&cases()["greedy"][0]["text"]));
    store.set_fault("close", Fault::Panic);
    assert_eq!(panic_of(|| load_from(&store)), "close of the store");
    store.set_fault("read_at", Fault::Fail(Status::NotFound));
    assert_eq!(load_from(&store).unwrap_err().status(), Status::Io);
}

#[test]
fn panics_and_failures_of_a_host_s_files_come_out_of_saving() {
    let mut session = begun();
    session.evaluate().unwrap();
    for at in ["open", "size", "write_at", "sync", "close"] {
        let store = Store::default();
        let options = SnapshotOptions {
            files: store.handle(),
            ..Default::default()
        };
        store.set_fault(at, Fault::Panic);
        let said = panic_of(|| session.save_with("s", &options));
        assert_eq!(said, format!("{at} of the store"));
        store.set_fault(at, Fault::Fail(Status::NoMemory));
        let error = session.save_with("s", &options).unwrap_err();
        assert_eq!(error.status(), Status::NoMemory, "{at} {error}");
        // A failure that says success is a failure.
        store.set_fault(at, Fault::Fail(Status::Other(0)));
        let error = session.save_with("s", &options).unwrap_err();
        assert_eq!(error.status(), Status::Io, "{at} {error}");
        assert_eq!(store.open_files(), 0);
        store.clear_fault();
        session.save_with("s", &options).unwrap();
        let loaded = Session::load_with(session.cache(), "s", &options)
            .unwrap()
            .session;
        assert_eq!(loaded.tokens().unwrap(), session.tokens().unwrap());
    }
    goes_on(&mut session);
}

#[test]
fn a_callback_may_use_the_library_while_another_panic_waits() {
    // The inner call's panic is caught by the outer callback, whose own comes out of the outer call.
    let mut session = begun();
    let said = panic_of(|| {
        session.generate_with(&up_to(3), |_| {
            let inner = panic_of(|| begun().generate_with(&up_to(3), |_| panic!("inner")));
            panic!("{inner} and outer");
        })
    });
    assert_eq!(said, "inner and outer");
    goes_on(&mut session);
}

#[test]
fn a_panic_for_a_part_comes_out_of_a_chat() {
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.messages.push(qinfer::message("user", "Hello!"));
    let said = panic_of(|| chat.reply_with(|part: Part| panic!("{part:?}")));
    assert!(said.starts_with("Content("), "{said}");
    assert_eq!(chat.messages.len(), 1);
    assert_eq!(
        chat.send("What is the capital of France?").unwrap(),
        "The capital of France is Paris."
    );
}
