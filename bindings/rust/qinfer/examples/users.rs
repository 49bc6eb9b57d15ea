//! Several users of one model: each thread submits its prompt, and the engine evaluates all of them as one batch.
//!
//!     cargo run --example users [-- MODEL]

use qinfer::{
    Engine, Error, GenerateOptions, KvCache, KvCacheOptions, LoadOptions, Model, Session,
};

/// A model, unless the command line names one.
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../examples/models/tiny-stories"
);

fn ask(engine: &Engine, cache: &KvCache, prompt: &str) -> Result<String, Error> {
    let mut session = Session::new(cache, &Default::default())?;
    session.append_text(prompt)?;
    let options = GenerateOptions {
        max_tokens: 40,
        stop: vec!["\n".into()],
        ..Default::default()
    };
    let mut text = prompt.to_string();
    for piece in engine.submit(session, &options, &Default::default())? {
        text += &piece?.text; // as it comes
    }
    Ok(text)
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or(MODEL.into());
    let model = Model::load(path, LoadOptions::default())?;
    let room = KvCacheOptions {
        budget_blocks: 64,
        ..Default::default()
    };
    let cache = KvCache::new(&model, &room)?;
    let engine = Engine::new(&cache, &Default::default())?;
    std::thread::scope(|scope| {
        let users = ["Once upon a time", "One sunny day"].map(|prompt| {
            let (engine, cache) = (&engine, &cache);
            scope.spawn(move || ask(engine, cache, prompt))
        });
        for user in users {
            println!("{}", user.join().expect("no user panics")?);
        }
        Ok(())
    })
}
