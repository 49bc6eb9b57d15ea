//! Engines: requests of many threads, drawn together, give what each gives alone, and end without the others noticing.

mod common;

use std::ops::ControlFlow;
use std::time::Duration;

use common::engines::*;
use common::*;
use qinfer::{
    Cancel, Engine, EngineOptions, Error, Finish, GenerateOptions, JobPiece, KvCache,
    RequestOptions, SamplerOptions, Session, SessionOptions, Status, Token,
};

#[test]
fn threads_get_what_each_gets_alone() {
    let cache = cache(60);
    let options = EngineOptions {
        max_running: 8,
        step: Duration::from_millis(50),
        ..Default::default()
    };
    let engine = Engine::new(&cache, &options).unwrap();
    let wanted = PROMPTS.iter().flat_map(|prompt| {
        samplers()
            .into_iter()
            .map(move |sampler| (*prompt, sampler))
    });
    let wanted: Vec<_> = wanted.collect();
    let got: Vec<Told> = std::thread::scope(|scope| {
        let ask = |(prompt, sampler): &(&str, SamplerOptions)| {
            let (engine, session) = (engine.clone(), asked(&cache, prompt, sampler));
            scope.spawn(move || ended(submit(&engine, session, 30)))
        };
        let threads: Vec<_> = wanted.iter().map(ask).collect();
        let join = |thread: std::thread::ScopedJoinHandle<Told>| thread.join().unwrap();
        threads.into_iter().map(join).collect()
    });
    let expected = wanted
        .iter()
        .map(|(prompt, sampler)| alone(prompt, sampler, &up_to(30)));
    assert_eq!(got, expected.collect::<Vec<_>>());
    let stats = engine.stats().unwrap();
    assert_eq!((stats.submitted, stats.ended), (12, 12));
    assert_eq!((stats.waiting, stats.running, stats.parked), (0, 0, 0));
    assert!(stats.steps >= 30 && stats.decode_rows > 100 && stats.prompt_rows > 12);
    assert!(stats.last_step > Duration::ZERO);
    assert!((1000..1_000_000).contains(&stats.memory_bytes));
    assert!(is_given_back(&cache));
}

/// A session whose ninth token is an end token.
fn ending(cache: &KvCache) -> Session {
    let mut session = asked(cache, PROMPTS[0], &samplers()[1]);
    let end = model().find_token("<|endoftext|>").unwrap() as usize;
    let mut drawn = 0;
    let hook = move |logits: &mut [f32]| {
        drawn += 1;
        if drawn == 9 {
            logits[end] = 1000.0;
        }
    };
    session.set_logits_hook(hook).unwrap();
    session
}

/// A piece as both ways give it.
type Given = (Option<Token>, String, Option<(f64, Vec<(Token, f64)>)>);

fn given_alone(options: &GenerateOptions) -> (Vec<Given>, Told) {
    let mut session = ending(&cache(60));
    let mut pieces = Vec::new();
    let generated = session.generate_with(options, |piece| {
        let logprobs = piece.logprobs.map(|told| {
            let tops = told.top_tokens.iter().zip(told.top_logprobs);
            let top = tops.map(|(token, logprob)| (*token, *logprob));
            (told.logprob, top.collect())
        });
        pieces.push((piece.token, piece.text.into_owned(), logprobs));
        ControlFlow::Continue(())
    });
    (pieces, told(&session, &generated.unwrap()))
}

#[test]
fn pieces_are_those_of_a_generation_alone() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let whole = given_alone(&up_to(0)).1 .0;
    // To a limit, an end token, a stop text, the end token as a stop text, and with text that is held back to the end.
    let cases = [
        (5, String::new(), Finish::Length),
        (0, String::new(), Finish::End),
        (0, whole[whole.len() / 2..][..4].into(), Finish::Stop),
        (0, "<|endoftext|>".into(), Finish::Stop),
        (0, format!("{}, no", &whole[whole.len() - 3..]), Finish::End),
    ];
    for top_logprobs in [None, Some(0), Some(3)] {
        for (max_tokens, stop, finish) in &cases {
            let options = GenerateOptions {
                stop: Vec::from_iter((!stop.is_empty()).then(|| stop.clone())),
                top_logprobs,
                ..up_to(*max_tokens)
            };
            let request = RequestOptions {
                priority: 1,
                key: 3,
                timeout: Some(Duration::from_secs(60)),
                ..Default::default()
            };
            let (expected, ended) = given_alone(&options);
            assert_eq!(ended.2, *finish, "{stop}");
            let mut job = engine.submit(ending(&cache), &options, &request).unwrap();
            let pieces: Result<Vec<JobPiece>, Error> = job.by_ref().collect();
            let got = pieces.unwrap().into_iter().map(|piece| {
                let logprobs = piece.logprobs.map(|told| (told.logprob, told.top));
                (piece.token, piece.text, logprobs)
            });
            assert_eq!(got.collect::<Vec<_>>(), expected, "{stop}");
            let generated = job.generated().unwrap().clone();
            assert!(job.next().is_none());
            assert_eq!(told(&job.into_session(), &generated), ended);
        }
    }
}

#[test]
fn a_session_that_is_back_goes_on() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let (mut session, first) = submit(&engine, greedy(&cache), 5).finish();
    assert_eq!(first.unwrap().finish, Finish::Length);
    session.generate(&up_to(5)).unwrap();
    let (session, _) = submit(&engine, session, 6).finish();
    let said = model().detokenize(&session.tokens().unwrap()[4..]).unwrap();
    assert_eq!(said, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn leaving_early_cancels() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let mut job = submit(&engine, greedy(&cache), 150);
    assert!(job.next().unwrap().is_ok());
    drop(job);
    drop(submit(&engine, greedy(&cache), 150));
    all_end(&engine);
    assert_eq!(engine.stats().unwrap().ended, 2);
    assert!(is_given_back(&cache));

    // An explicit cancel, after which what was drawn is still read.
    let mut job = submit(&engine, greedy(&cache), 150);
    let first = job.next().unwrap().unwrap();
    job.cancel();
    let mut pieces: Vec<_> = job.by_ref().collect();
    let error = pieces.pop().unwrap().unwrap_err();
    assert_eq!(error.status(), Status::Cancelled);
    assert!(pieces.iter().all(Result::is_ok) && job.generated().is_none());
    assert!(format!("{job:?}").contains("over: true") && job.next().is_none());
    let (session, again) = job.finish();
    assert_eq!(again.unwrap_err().status(), Status::State);
    assert_eq!(session.tokens().unwrap()[4], first.token.unwrap());

    // That of the generation, by another thread or before.
    let cancel = Cancel::new().unwrap();
    let options = GenerateOptions {
        cancel: Some(cancel.clone()),
        ..up_to(150)
    };
    let begin = || engine.submit(greedy(&cache), &options, &RequestOptions::default());
    let mut job = begin().unwrap();
    assert!(job.next().unwrap().is_ok());
    cancel.request();
    assert_eq!(failed(job).status(), Status::Cancelled);
    assert_eq!(failed(begin().unwrap()).status(), Status::Cancelled);
    cancel.reset();
    let mut session = begin().unwrap().into_session();
    // It may have drawn some, and goes on.
    session.truncate(4).unwrap();
    let generated = session.generate(&up_to(16)).unwrap();
    assert_eq!(generated.text, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn text_that_was_held_back_comes_before_the_error() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let mut session = greedy(&cache);
    let a = model().find_token("a").unwrap();
    session.set_bias(&[(a, 1000.0)]).unwrap();
    let options = GenerateOptions {
        stop: vec!["a".repeat(4096)],
        ..up_to(100)
    };
    let mut job = engine
        .submit(session, &options, &RequestOptions::default())
        .unwrap();
    for _ in 0..3 {
        assert_eq!(job.next().unwrap().unwrap().text, "");
    }
    job.cancel();
    let rest: Vec<_> = job.by_ref().collect();
    let [.., Ok(piece), Err(error)] = &rest[..] else {
        panic!("{rest:?}")
    };
    assert_eq!(error.status(), Status::Cancelled);
    let session = job.into_session();
    assert_eq!(piece.token, None);
    assert_eq!(piece.text, "a".repeat(session.len() - 4));
}

#[test]
fn a_timeout_ends_a_request_and_no_other() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let other = submit(&engine, greedy(&cache), 60);
    let timeout = |timeout| RequestOptions {
        timeout: Some(timeout),
        ..Default::default()
    };
    let job = engine.submit(greedy(&cache), &up_to(150), &timeout(Duration::ZERO));
    let error = failed(job.unwrap());
    assert_eq!(error.status(), Status::Cancelled);
    assert!(error.message().contains("deadline"), "{error}");
    let job = engine.submit(greedy(&cache), &up_to(5), &timeout(Duration::MAX));
    assert!(job.unwrap().finish().1.is_ok());
    let expected = alone(PROMPTS[0], &SamplerOptions::default(), &up_to(60));
    assert_eq!(ended(other), expected);
}

#[test]
fn one_that_fails_leaves_the_others_alone() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let mut jobs: Vec<_> = PROMPTS
        .iter()
        .map(|prompt| {
            submit(
                &engine,
                asked(&cache, prompt, &SamplerOptions::default()),
                60,
            )
        })
        .collect();
    let mut none_left = greedy(&cache);
    none_left
        .set_logits_hook(|logits: &mut [f32]| logits.fill(f32::NEG_INFINITY))
        .unwrap();
    assert_eq!(
        failed(submit(&engine, none_left, 60)).status(),
        Status::Numeric
    );
    for (job, prompt) in jobs.drain(..).zip(PROMPTS) {
        let expected = alone(prompt, &SamplerOptions::default(), &up_to(60));
        assert_eq!(ended(job), expected);
    }
}

#[test]
fn sessions_that_guess_give_the_same() {
    let cache = cache(60);
    let engine = engine_of(&cache);
    let options = SessionOptions {
        max_tokens: 200,
        max_draft: 8,
        ..Default::default()
    };
    let mut session = Session::new(&cache, &options).unwrap();
    session.append_text(PROMPTS[1]).unwrap();
    let expected = alone(PROMPTS[1], &SamplerOptions::default(), &up_to(60));
    assert_eq!(ended(submit(&engine, session, 60)), expected);
}
