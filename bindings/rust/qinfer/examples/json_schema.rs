//! Text that fulfils a JSON schema, whatever the model would have said.
//!
//!     cargo run --features grammar --example json_schema [-- MODEL [SCHEMA]]

use qinfer::{
    Error, GenerateOptions, Grammar, LoadOptions, Model, SamplerOptions, Session, Vocabulary,
};

/// A model, unless the command line names one.
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../examples/models/tiny-stories"
);

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"enum": [4, 5]}
    },
    "required": ["name", "age"],
    "additionalProperties": false
}"#;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or(MODEL.into());
    let schema = arguments.next().unwrap_or(SCHEMA.into());

    let model = Model::load(model, LoadOptions::default())?;
    let vocabulary = Vocabulary::new(&model)?; // once for each model
    let grammar = Grammar::json_schema(&vocabulary, &schema, &Default::default())?;

    let mut session = Session::for_model(&model)?;
    session.set_sampler(&SamplerOptions {
        temperature: 0.8,
        seed: 1,
        ..Default::default()
    })?;
    session.append_text("Lily: ")?;
    session.set_grammar(&grammar)?;
    let options = GenerateOptions {
        max_tokens: 200,
        ..Default::default()
    };
    println!("{}", session.generate(&options)?.text);
    Ok(())
}
