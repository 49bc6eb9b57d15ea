//! Sessions beside the conformance cases: logits, batches, samplers, embeddings, and what the library tells.

mod common;

use std::ops::ControlFlow;

use common::*;
use qinfer::{
    evaluate, EmbeddingOptions, EmbeddingTextOptions, EvalOptions, Finish, GenerateOptions,
    Pooling, SamplerOptions, ScoreOptions, Session, SessionOptions, Status, Steps, Token,
};

fn first_ids() -> Vec<Token> {
    ids(&cases()["greedy"][0]["ids"])
}

#[test]
fn logits_are_borrowed_or_copied_and_give_log_probabilities() {
    let options = SessionOptions {
        max_logits: 2,
        ..Default::default()
    };
    let mut session = Session::new(&cache(4), &options).unwrap();
    assert!(session.logits(0).is_none());
    session.append_text("Once upon a time").unwrap();
    session
        .evaluate_with(&EvalOptions {
            keep_logits: 2,
            ..Default::default()
        })
        .unwrap();
    let logits = session.logits(0).unwrap();
    assert_eq!(logits.len(), model().info().n_vocab as usize);
    assert_ne!(logits, session.logits(1).unwrap());
    assert!(session.logits(2).is_none());
    let mut copy = vec![0.0; logits.len()];
    assert_eq!(session.copy_logits(0, &mut copy).unwrap(), logits.len());
    assert_eq!(copy, logits);
    let best = session.top_logprobs(0, 3).unwrap();
    assert_eq!(best[0].0, first_ids()[0]);
    assert!(best[0].1 > best[1].1 && best[1].1 > best[2].1);
    // The definition in qinfer.h, with f64 sums: rounding is all that differs.
    let values: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = values.iter().map(|value| (value - largest).exp()).sum();
    let expected = values[best[1].0 as usize] - largest - sum.ln();
    assert!((best[1].1 - expected).abs() < 1e-9);
    assert_eq!(session.logprobs(0, &[best[0].0]).unwrap(), [best[0].1]);
    assert!(session.logprobs(0, &[]).unwrap().is_empty());
    let error = session.logprobs(5, &[1]).unwrap_err();
    assert_eq!(error.status(), Status::State);
}

#[test]
fn one_batch_gives_what_single_sessions_give() {
    let cache = cache(16);
    let greedy = list(&cases()["greedy"]);
    let mut sessions: Vec<Session> = greedy.iter().map(|_| session_of(&cache, 64)).collect();
    for (session, case) in sessions.iter_mut().zip(greedy) {
        session.append_text(text(&case["prompt"])).unwrap();
    }
    for at in 0..16 {
        let mut batch: Vec<&mut Session> = sessions.iter_mut().collect();
        evaluate(&mut batch, &EvalOptions::default()).unwrap();
        for (session, case) in sessions.iter_mut().zip(greedy) {
            assert_eq!(session.sample().unwrap(), ids(&case["ids"])[at]);
        }
    }
}

#[test]
fn a_prompt_is_evaluated_in_chunks_without_logits() {
    let mut session = begun();
    let chunk = EvalOptions {
        max_tokens: 2,
        no_logits: true,
        ..Default::default()
    };
    session.evaluate_with(&chunk).unwrap();
    assert_eq!((session.len(), session.pending()), (4, 2));
    session.evaluate().unwrap();
    assert_eq!(session.sample().unwrap(), first_ids()[0]);
    assert_eq!(
        session.evaluate_with(&chunk).map(|()| session.logits(0)),
        Ok(None)
    );
}

#[test]
fn set_tokens_keeps_what_is_common() {
    let mut session = begun();
    session.evaluate().unwrap();
    let mut tokens = session.tokens().unwrap();
    tokens[3] = 5;
    assert_eq!(session.set_tokens(&tokens).unwrap(), 3);
    assert_eq!(session.tokens().unwrap(), tokens);
    session.truncate(0).unwrap();
    assert!(session.is_empty());
}

#[test]
fn a_sampler_draws_by_its_seed_and_a_bias_moves_it() {
    let draw = |seed| {
        let mut session = begun();
        let options = SamplerOptions {
            temperature: 1.5,
            top_k: 50,
            seed,
            ..Default::default()
        };
        session.set_sampler(&options).unwrap();
        session.generate(&up_to(20)).unwrap().text
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let with = |options: SamplerOptions| {
        let mut session = begun();
        session.set_dry_breakers(&[":", "a longer one"])?;
        session.set_sampler(&options)?;
        session.generate(&up_to(20)).map(|generated| generated.text)
    };
    let best = with(SamplerOptions::default()).unwrap();
    let hot = SamplerOptions {
        temperature: 1.5,
        top_k: 1,
        ..Default::default()
    };
    assert_eq!(with(hot).unwrap(), best);
    let unordered = SamplerOptions {
        steps: Steps::try_from("t").unwrap(),
        ..hot
    };
    assert_ne!(with(unordered).unwrap(), best);
    let wrong = SamplerOptions {
        steps: Steps::try_from("tz").unwrap(),
        ..hot
    };
    assert!(with(wrong).unwrap_err().to_string().contains("0x7a"));
    assert!(Steps::try_from("tttttttttttttttttttt").is_err());
    assert!(begun().set_dry_breakers(&[""]).is_err());
    let mut session = begun();
    session.set_bias(&[(7, 1000.0)]).unwrap();
    session.evaluate().unwrap();
    assert_eq!(session.sample().unwrap(), 7);
    session.set_bias(&[]).unwrap();
    assert_eq!(session.info().unwrap().n_bias, 0);
}

#[test]
fn a_callback_that_breaks_ends_the_generation() {
    let mut texts = Vec::new();
    let done = begun()
        .generate_with(&up_to(50), |piece| {
            texts.push(piece.text.into_owned());
            match texts.len() {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .unwrap();
    assert_eq!((done.finish, done.new_tokens), (Finish::Callback, 3));
    assert_eq!(texts.concat(), done.text);
}

#[test]
fn pieces_come_with_log_probabilities_where_they_are_wanted() {
    let options = GenerateOptions {
        top_logprobs: Some(2),
        ..up_to(16)
    };
    let mut drawn = Vec::new();
    let done = begun()
        .generate_with(&options, |piece| {
            let logprobs = piece.logprobs.unwrap();
            // Greedy: the token that is drawn is the most likely one.
            assert_eq!(piece.token, Some(logprobs.top_tokens[0]));
            assert_eq!(logprobs.logprob, logprobs.top_logprobs[0]);
            assert!(logprobs.top_tokens.len() == 2 && logprobs.logprob < 0.0);
            drawn.extend(piece.token);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(drawn, first_ids());
    assert_eq!(done.text, text(&cases()["greedy"][0]["text"]));
}

#[test]
fn text_that_was_held_back_comes_without_a_token() {
    // The first byte of a two-byte character: at the end it is no character, and becomes U+FFFD.
    let n_vocab = model().info().n_vocab as Token;
    let byte = (0..n_vocab)
        .find(|&token| model().token_bytes(token) == [0xc3])
        .unwrap();
    for top_logprobs in [None, Some(1)] {
        let options = GenerateOptions {
            top_logprobs,
            ..up_to(1)
        };
        let mut session = begun();
        session.set_bias(&[(byte, 1000.0)]).unwrap();
        let mut pieces = Vec::new();
        let done = session
            .generate_with(&options, |piece| {
                pieces.push((piece.token, piece.text.into_owned()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            pieces,
            [(Some(byte), String::new()), (None, "\u{fffd}".to_string())]
        );
        assert_eq!((done.text.as_str(), done.new_tokens), ("\u{fffd}", 1));
    }
}

#[test]
fn similar_texts_have_similar_embeddings() {
    let embed = |text: &str, pooling| {
        let options = SessionOptions {
            embeddings: true,
            ..Default::default()
        };
        let mut session = Session::new(&cache(4), &options).unwrap();
        session.append_text(text).unwrap();
        session.evaluate().unwrap();
        session.embedding(pooling).unwrap()
    };
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for pooling in [Pooling::Default, Pooling::Mean] {
        let cat = embed("The cat sat by the house.", pooling);
        let tree = embed("The cat sat by the tree.", pooling);
        let crash = embed("Crash!", pooling);
        assert_eq!(cat.len(), model().info().n_embd as usize);
        assert!((dot(&cat, &cat) - 1.0).abs() < 1e-5);
        assert!(dot(&cat, &tree) > dot(&cat, &crash));
    }
    let mut session = begun();
    let how = ScoreOptions {
        template_text: Some("{query} said: {document}".to_string()),
        yes: Some("a".to_string()),
        no: Some("b".to_string()),
        ..Default::default()
    };
    assert_eq!(session.set_pair("Tom", "a cat", &how).unwrap(), 0);
    session.evaluate().unwrap();
    let score = session.score(&how).unwrap();
    let raw = session.score(&ScoreOptions { raw: true, ..how });
    assert!((score - 1.0 / (1.0 + (-raw.unwrap()).exp())).abs() < 1e-6);
    let options = SessionOptions {
        embeddings: true,
        ..Default::default()
    };
    let mut session = Session::new(&cache(4), &options).unwrap();
    let text = EmbeddingTextOptions {
        truncate: true,
        max_tokens: 3,
        ..Default::default()
    };
    let (tokens, cut) = model().embedding_tokens("Once upon a time", &text).unwrap();
    assert!(tokens.len() == 3 && cut > 0);
    session.append(&tokens).unwrap();
    session.evaluate().unwrap();
    let first = EmbeddingOptions {
        dims: 8,
        ..Default::default()
    };
    assert_eq!(session.embedding_with(&first).unwrap().len(), 8);
    assert!(model().prompts().unwrap().is_empty());
    assert_eq!(model().default_prompt(), None);
    assert_eq!(
        begun().embedding(Pooling::Last).unwrap_err().status(),
        Status::State
    );
}

#[test]
fn sessions_tell_what_they_hold_and_what_they_computed() {
    let mut session = begun();
    session.generate(&up_to(3)).unwrap();
    let info = session.info().unwrap();
    assert_eq!((info.n_tokens, info.n_evaluated, info.n_logits), (7, 6, 1));
    assert_eq!(info.max_tokens, model().info().context_tokens);
    let metrics = session.metrics().unwrap();
    assert_eq!((metrics.prefill_tokens, metrics.decode_tokens), (4, 2));
    assert!(metrics.prefill_ns > 0 && metrics.evals == 3);
    assert!(session.memory().unwrap().kv_private > 0);
    let stats = session.cache().stats().unwrap();
    assert_eq!((stats.blocks_used, stats.block_tokens), (1, 32));
}
