//! Threads and lifetimes: what is for which thread, cancelling, and dropping in any order.

mod common;

use std::ops::ControlFlow;
use std::sync::mpsc::channel;

use common::*;
use qinfer::{
    Cancel, Chat, Detokenizer, GenerateOptions, KvCache, KvCacheOptions, LoadOptions, Model, Reply,
    Session, Status,
};

fn is_send<T: Send>() {}
fn is_send_and_sync<T: Send + Sync>() {}

/// Compiles only for types that are not Sync: for others `is_not_sync` is ambiguous.
trait NotSync<A> {
    fn is_not_sync() {}
}
impl<T> NotSync<()> for T {}
struct Ambiguous;
impl<T: Sync> NotSync<Ambiguous> for T {}

#[test]
fn handles_are_for_the_threads_that_the_header_says() {
    is_send_and_sync::<qinfer::Runtime>();
    is_send_and_sync::<Model>();
    is_send_and_sync::<KvCache>();
    is_send_and_sync::<qinfer::KvStore>();
    is_send_and_sync::<Cancel>();
    is_send_and_sync::<qinfer::Engine>();
    #[cfg(feature = "grammar")]
    {
        is_send_and_sync::<qinfer::Vocabulary>();
        is_send_and_sync::<qinfer::Grammar>();
        is_send_and_sync::<qinfer::Matcher>();
    }
    is_send_and_sync::<qinfer::Error>();
    is_send::<Session>();
    is_send::<Detokenizer>();
    is_send::<Reply>();
    is_send::<Chat>();
    is_send::<qinfer::Job>();
    is_send::<qinfer::Refused>();
    <Session as NotSync<_>>::is_not_sync();
    <Detokenizer as NotSync<_>>::is_not_sync();
    <Reply as NotSync<_>>::is_not_sync();
    <qinfer::Job as NotSync<_>>::is_not_sync();
}

#[test]
fn a_cancel_from_another_thread_ends_a_generation_which_goes_on_after_a_reset() {
    let cancel = Cancel::new().unwrap();
    let options = GenerateOptions {
        cancel: Some(cancel.clone()),
        ..up_to(20)
    };
    let mut session = begun();
    let (begun, first) = channel();
    let requests = cancel.clone();
    let thread = std::thread::spawn(move || {
        first.recv().unwrap();
        requests.request();
    });
    let failed = loop {
        let result = session.generate_with(&options, |_| {
            let _ = begun.send(());
            ControlFlow::Continue(())
        });
        match result {
            Ok(_) => session.truncate(4).unwrap(),
            Err(failed) => break failed,
        }
    };
    thread.join().unwrap();
    assert_eq!(failed.status(), Status::Cancelled);
    // It stays until it is reset.
    assert_eq!(
        session.generate(&options).unwrap_err().status(),
        Status::Cancelled
    );
    cancel.reset();
    session.truncate(4).unwrap();
    let done = session.generate(&GenerateOptions {
        max_tokens: 16,
        ..options
    });
    assert_eq!(done.unwrap().text, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn a_cancelled_stream_ends_with_the_error_once() {
    let cancel = Cancel::new().unwrap();
    let options = GenerateOptions {
        cancel: Some(cancel.clone()),
        ..up_to(100)
    };
    let mut session = begun();
    let mut stream = session.stream(&options).unwrap();
    assert!(stream.next().unwrap().is_ok());
    cancel.request();
    let last = stream.by_ref().last().unwrap();
    assert_eq!(last.unwrap_err().status(), Status::Cancelled);
    assert!(stream.next().is_none() && stream.generated().is_none());
    assert_eq!(stream.finish().unwrap_err().status(), Status::State);
    cancel.reset();
    assert!(session.generate(&up_to(3)).is_ok());
}

#[test]
fn handles_are_dropped_in_any_order() {
    let path = root().join(text(&cases()["model"]));
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let runtime = runtime();
        let options = LoadOptions {
            runtime: Some(runtime.clone()),
            ..Default::default()
        };
        let model = Model::load(&path, options).unwrap();
        let cache = KvCache::new(&model, &KvCacheOptions::default()).unwrap();
        let mut session = session_of(&cache, 0);
        let mut handles = [
            Some(Box::new(runtime) as Box<dyn std::any::Any>),
            Some(Box::new(model.clone())),
            Some(Box::new(cache)),
            Some(Box::new(Detokenizer::new(&model).unwrap())),
        ];
        drop(model);
        for at in order {
            handles[at] = None;
            session.append_text("Once upon a time").unwrap();
            session.evaluate().unwrap();
        }
    }
}

#[test]
fn a_session_moves_between_threads() {
    let mut session = begun();
    let done = std::thread::spawn(move || {
        session.generate(&up_to(4)).unwrap();
        session
    });
    let mut session = done.join().unwrap();
    session.generate(&up_to(12)).unwrap();
    let said = model().detokenize(&session.tokens().unwrap()[4..]).unwrap();
    assert_eq!(said, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn a_session_whose_stream_was_forgotten_fails_cleanly() {
    let mut session = begun();
    std::mem::forget(session.stream(&up_to(1)).unwrap());
    let error = session.evaluate().unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
    assert_eq!((session.len(), session.pending()), (0, 0));
    assert!(session.logits(0).is_none() && session.as_ptr().is_null());
    for result in [
        session.append(&[1]),
        session.truncate(0),
        session.clear_logits_hook(),
    ] {
        assert!(result.is_err());
    }
    assert!(session.fork().is_err() && session.tokens().is_err());
    assert!(session.stream(&up_to(1)).unwrap().finish().is_err());
}

#[test]
fn a_stream_may_be_read_on_another_thread() {
    let mut session = begun();
    let stream = session.stream(&up_to(16)).unwrap();
    let said: String = std::thread::scope(|scope| {
        let reader = scope.spawn(move || stream.map(Result::unwrap).collect());
        reader.join().unwrap()
    });
    assert_eq!(said, text(&cases()["greedy"][0]["text"]));
    assert_eq!(session.len(), 4 + 16);
}

#[test]
fn a_stream_is_left_while_all_its_text_is_held_back() {
    let mut session = begun();
    let a = model().find_token("a").unwrap();
    session.set_bias(&[(a, 1000.0)]).unwrap();
    let options = GenerateOptions {
        stop: vec!["a".repeat(4096)],
        ..Default::default()
    };
    drop(session.stream(&options).unwrap());
    let context = model().info().context_tokens as usize;
    assert!(session.len() < context / 2, "{}", session.len());
    // To its end the generation fills the context, and what was held back is text after all, in one piece.
    let pieces: Vec<_> = session.stream(&options).unwrap().collect();
    assert_eq!((session.len(), pieces.len()), (context, 1));
}

/// Generates where the thread ends.
struct AtTheEnd(Option<(Session, std::sync::mpsc::Sender<usize>)>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some((mut session, tell)) = self.0.take() {
            let mut pieces = 0;
            let made = session.generate_with(&three(), |_| {
                pieces += 1;
                ControlFlow::Continue(())
            });
            let _ = tell.send(made.map_or(0, |_| pieces));
        }
    }
}

thread_local! {
    static AT_THE_END: std::cell::RefCell<AtTheEnd> = const { std::cell::RefCell::new(AtTheEnd(None)) };
}

fn three() -> GenerateOptions {
    GenerateOptions {
        max_tokens: 3,
        ..Default::default()
    }
}

#[test]
fn what_is_dropped_where_a_thread_ends_may_generate() {
    let (tell, told) = channel();
    let session = prompted("Once upon a time");
    std::thread::spawn(move || {
        // First, so that it is dropped after what the crate has for the thread.
        AT_THE_END.with(|_| ());
        let mut other = prompted("Once upon a time");
        other
            .generate_with(&three(), |_| ControlFlow::Continue(()))
            .unwrap();
        AT_THE_END.with_borrow_mut(|end| end.0 = Some((session, tell)));
    })
    .join()
    .unwrap();
    assert_eq!(told.recv(), Ok(3));
}
