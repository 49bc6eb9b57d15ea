//! What the tests of engines share: sessions to submit, what they give alone, and how jobs end.

use std::time::{Duration, Instant};

use qinfer::{
    Engine, EngineOptions, Error, Finish, GenerateOptions, Generated, Job, KvCache, RequestOptions,
    SamplerOptions, Session, Token,
};

use super::*;

pub const PROMPTS: [&str; 4] = [
    "Once upon a time",
    "Lily saw a dog. Lily saw a dog. Lily",
    "The sun",
    "Tom and Sue went to the park",
];

pub fn samplers() -> [SamplerOptions; 3] {
    let seeded = |temperature, top_k, seed| SamplerOptions {
        temperature,
        top_k,
        seed,
        ..Default::default()
    };
    [
        SamplerOptions::default(),
        seeded(0.8, 0, 5),
        seeded(1.1, 20, 6),
    ]
}

pub fn asked(cache: &KvCache, prompt: &str, sampler: &SamplerOptions) -> Session {
    let mut session = session_of(cache, 200);
    session.append_text(prompt).unwrap();
    session.set_sampler(sampler).unwrap();
    session
}

pub fn greedy(cache: &KvCache) -> Session {
    asked(cache, PROMPTS[0], &SamplerOptions::default())
}

/// The text, the tokens, and how it ended.
pub type Told = (String, Vec<Token>, Finish, u32, u32);

pub fn told(session: &Session, generated: &Generated) -> Told {
    (
        generated.text.clone(),
        session.tokens().unwrap(),
        generated.finish,
        generated.prompt_tokens,
        generated.new_tokens,
    )
}

pub fn alone(prompt: &str, sampler: &SamplerOptions, options: &GenerateOptions) -> Told {
    let mut session = asked(&cache(60), prompt, sampler);
    let generated = session.generate(options).unwrap();
    told(&session, &generated)
}

pub fn engine_of(cache: &KvCache) -> Engine {
    Engine::new(cache, &EngineOptions::default()).unwrap()
}

pub fn submit(engine: &Engine, session: Session, max_tokens: u32) -> Job {
    let request = RequestOptions::default();
    engine
        .submit(session, &up_to(max_tokens), &request)
        .unwrap()
}

pub fn ended(job: Job) -> Told {
    let (session, generated) = job.finish();
    told(&session, &generated.unwrap())
}

/// Waits until all requests have ended, whether they were read or not.
pub fn all_end(engine: &Engine) {
    let begin = Instant::now();
    loop {
        let stats = engine.stats().unwrap();
        if stats.ended == stats.submitted {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{stats:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until no session holds blocks of the cache, since dropped jobs end with the next step.
pub fn is_given_back(cache: &KvCache) -> bool {
    let begin = Instant::now();
    while cache.stats().unwrap().blocks_used != 0 {
        if begin.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

pub fn failed(job: Job) -> Error {
    job.finish().1.unwrap_err()
}
