//! Models, runtimes and plans: what they tell, packing, and single tokens.

mod common;

use common::*;
use qinfer::{
    cpu_info, kernel_sets, plan, plan_map, version, version_number, Detokenizer, KvCacheOptions,
    LoadOptions, Model, PlanOptions, Runtime, RuntimeOptions, SessionOptions, Status,
    TokenizeOptions,
};
use serde_json::Value;

#[test]
fn the_library_tells_its_version_and_the_machine() {
    let number = version_number();
    let parts = (number / 10000, number / 100 % 100, number % 100);
    assert_eq!(version(), format!("{}.{}.{}", parts.0, parts.1, parts.2));
    assert!(!qinfer::build_info().is_empty());
    let cpu = cpu_info().unwrap();
    assert!(cpu.physical_cores > 0 && cpu.logical_cores >= cpu.physical_cores);
    let sets = kernel_sets().unwrap();
    assert!(sets.iter().any(|set| set.name == cpu.target));
    assert!(sets
        .iter()
        .all(|set| !set.weight_formats.is_empty() && !set.kv_types.is_empty()));
}

#[test]
fn a_runtime_is_what_was_asked_for() {
    let options = RuntimeOptions {
        threads: 2,
        cpu_target: Some("reference".into()),
        exact: true,
        ..Default::default()
    };
    let runtime = Runtime::new(&options).unwrap();
    let info = runtime.info().unwrap();
    assert_eq!((info.threads, info.target.as_str()), (2, "reference"));
    assert_eq!(runtime.metrics().unwrap().evals, 0);
}

#[test]
fn a_model_tells_what_it_is() {
    let model = model();
    let info = model.info();
    assert_eq!(info.n_vocab, 1024);
    assert!(info.n_params > 100_000 && info.file_bytes > 0 && !info.kernel_set.is_empty());
    let metadata = model.metadata();
    assert!(metadata.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let (key, value) = &metadata[0];
    assert_eq!(model.metadata_value(key).as_ref(), Some(value));
    assert_eq!(model.metadata_value("no such key"), None);
    assert_eq!(model.metadata_value("a\0b"), None);
}

#[test]
fn a_model_without_weights_has_a_tokenizer_and_no_sessions() {
    let options = LoadOptions {
        no_weights: true,
        ..Default::default()
    };
    let model = Model::load(root().join(text(&cases()["model"])), options).unwrap();
    assert!(!model.tokenize("Once upon a time").unwrap().is_empty());
    assert!(qinfer::Session::for_model(&model).is_err());
}

#[test]
fn plans_are_what_is_taken() {
    let path = root().join(text(&cases()["model"]));
    let taken = model().memory().unwrap();
    let one_thread = || {
        Some(RuntimeOptions {
            threads: 1,
            ..Default::default()
        })
    };
    let alone = PlanOptions {
        runtime: one_thread(),
        ..Default::default()
    };
    let planned = plan(&path, alone).unwrap();
    assert_eq!(planned.weights_mapped, taken.weights_mapped);
    assert_eq!(planned.weights_private, taken.weights_private);
    assert_eq!(planned.scratch, taken.scratch);
    let options = || PlanOptions {
        runtime: one_thread(),
        cache: Some(KvCacheOptions {
            budget_blocks: 8,
            ..Default::default()
        }),
        session: Some(SessionOptions {
            max_tokens: 64,
            ..Default::default()
        }),
        ..Default::default()
    };
    let planned = plan(&path, options()).unwrap();
    assert_eq!(planned.kv_cache_bytes, 8 * planned.kv_per_block);
    let map: Value = serde_json::from_str(&plan_map(&path, options()).unwrap()).unwrap();
    let bytes = |of: &[&str]| -> u64 {
        let regions = list(&map["regions"]).iter();
        let these = regions.filter(|region| of.contains(&text(&region["belongs_to"])));
        these.map(|region| region["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(bytes(&["model", "cache"]), planned.total);
    assert_eq!(bytes(&["session"]), planned.per_session);
}

#[test]
fn handles_are_for_the_functions_that_this_crate_leaves_out() {
    use qinfer::sys;
    let (runtime, cache, cancel) = (runtime(), cache(1), qinfer::Cancel::new().unwrap());
    let mut session = session_of(&cache, 0);
    // SAFETY: the handles live.
    unsafe {
        assert!(sys::qinfer_model_encoding_count(model().as_ptr()) > 0);
        assert_eq!(sys::qinfer_session_length(session.as_mut_ptr()), 0);
        assert_eq!(sys::qinfer_session_pending(session.as_ptr()), 0);
    }
    assert!(!runtime.as_ptr().is_null() && !cache.as_ptr().is_null() && !cancel.as_ptr().is_null());
}

#[test]
fn a_packed_model_is_used_and_verified() {
    let folder = Folder::new();
    let path = root().join(text(&cases()["model"]));
    let packed = folder.join("packed");
    Model::pack(&path, LoadOptions::default(), &packed).unwrap();
    let options = LoadOptions {
        packed_path: Some(packed.clone()),
        verify: true,
        ..Default::default()
    };
    let model = Model::load(&path, options).unwrap();
    assert!(model.memory().unwrap().weights_mapped > 0);
    let alone = Model::load(&packed, LoadOptions::default()).unwrap();
    assert_eq!(alone.info().n_params, model.info().n_params);
    let error = Model::pack(&path, LoadOptions::default(), &path).unwrap_err();
    assert_ne!(error.status(), Status::Internal, "{error}");
}

#[test]
fn tokens_have_bytes_flags_and_names() {
    let model = chat_model();
    let ends = model.end_tokens().unwrap();
    assert!(!ends.is_empty());
    for end in ends {
        let flags = model.token_flags(end);
        assert!(flags.control && flags.end && !flags.byte);
        let name = std::str::from_utf8(model.token_bytes(end)).unwrap();
        assert_eq!(model.find_token(name).unwrap(), end);
        let plain = model.tokenize(name).unwrap();
        assert!(!plain.contains(&end));
        let options = TokenizeOptions {
            parse_special: true,
            ..Default::default()
        };
        assert!(model.tokenize_with(name, &options).unwrap().contains(&end));
    }
    assert_eq!(
        model.find_token("no such token").unwrap_err().status(),
        Status::NotFound
    );
    assert!(model.token_bytes(-1).is_empty());
    assert_eq!(model.token_flags(1 << 30), Default::default());
}

#[test]
fn a_detokenizer_gives_whole_characters_and_starts_over() {
    let mut detokenizer = Detokenizer::new(model()).unwrap();
    let options = TokenizeOptions {
        add_special: false,
        ..Default::default()
    };
    let tokens = model().tokenize_with("日本", &options).unwrap();
    assert!(tokens.len() > 2);
    for _ in 0..2 {
        let pieces: Vec<String> = tokens
            .iter()
            .map(|&token| detokenizer.push(token).unwrap().to_string())
            .collect();
        assert!(pieces.iter().any(String::is_empty));
        assert_eq!(pieces.concat() + detokenizer.finish().unwrap(), "日本");
    }
    assert_eq!(detokenizer.push(tokens[0]).unwrap(), "");
    assert_eq!(detokenizer.finish().unwrap(), "\u{fffd}");
    assert_eq!(
        detokenizer.push(1 << 30).unwrap_err().status(),
        Status::InvalidArgument
    );
}
