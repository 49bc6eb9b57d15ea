//! Errors: each status by number, whole messages, and text that C cannot take.

mod common;

use common::*;
use qinfer::{
    message, plan, ChatOptions, Error, GenerateOptions, LoadOptions, Model, PlanOptions, Runtime,
    RuntimeOptions, Session, SessionOptions, Status,
};

#[test]
fn every_status_has_its_number_and_its_name() {
    let all = [
        (Status::Internal, -1, "QINFER_E_INTERNAL"),
        (Status::InvalidArgument, -2, "QINFER_E_INVALID_ARGUMENT"),
        (Status::State, -3, "QINFER_E_STATE"),
        (Status::Unsupported, -4, "QINFER_E_UNSUPPORTED"),
        (Status::NoMemory, -5, "QINFER_E_NO_MEMORY"),
        (Status::Io, -6, "QINFER_E_IO"),
        (Status::NotFound, -7, "QINFER_E_NOT_FOUND"),
        (Status::Format, -8, "QINFER_E_FORMAT"),
        (Status::BufferTooSmall, -9, "QINFER_E_BUFFER_TOO_SMALL"),
        (Status::KvFull, -10, "QINFER_E_KV_FULL"),
        (Status::ContextFull, -11, "QINFER_E_CONTEXT_FULL"),
        (Status::Cancelled, -12, "QINFER_E_CANCELLED"),
        (Status::Numeric, -13, "QINFER_E_NUMERIC"),
    ];
    for (status, code, name) in all {
        assert_eq!(Status::from_code(code), status);
        assert_eq!((status.code(), status.name()), (code, name));
    }
}

#[test]
fn an_unknown_status_keeps_its_number() {
    let status = Status::from_code(-99);
    assert_eq!((status, status.code()), (Status::Other(-99), -99));
    assert!(!status.name().is_empty());
}

#[test]
fn an_error_says_status_message_and_detail() {
    let error = Model::load("no/such/model", LoadOptions::default()).unwrap_err();
    assert_eq!(
        (error.status(), error.name()),
        (Status::NotFound, "QINFER_E_NOT_FOUND")
    );
    assert_eq!(error.detail(), 2);
    let shown = error.to_string();
    assert!(shown.starts_with("QINFER_E_NOT_FOUND: ") && shown.contains("no/such/model"));
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.clone().into();
    assert_eq!(boxed.downcast_ref::<Error>(), Some(&error));
}

#[test]
fn a_long_message_is_whole() {
    let path = format!("{}/end", "folder/".repeat(500));
    let error = Model::load(&path, LoadOptions::default()).unwrap_err();
    assert!(error.message().contains(&path), "{}", error.message().len());
}

#[test]
fn a_nul_byte_in_a_path_or_a_name_is_an_invalid_argument() {
    let folder = Folder::new();
    let cut = || folder.join("cut\0here");
    let path = root().join(text(&cases()["model"]));
    let session = begun();
    let model = model();
    let packed = LoadOptions {
        packed_path: Some(cut()),
        ..Default::default()
    };
    let format = LoadOptions {
        weight_format: Some("f\0".into()),
        ..Default::default()
    };
    let target = RuntimeOptions {
        cpu_target: Some("\0".into()),
        ..Default::default()
    };
    let template = ChatOptions {
        template_text: Some("a\0b".into()),
        ..Default::default()
    };
    let calls: [Result<(), Error>; 9] = [
        Model::load(cut(), LoadOptions::default()).map(drop),
        Model::load(&path, packed).map(drop),
        Model::load(&path, format).map(drop),
        Model::pack(&path, LoadOptions::default(), cut()),
        plan(cut(), PlanOptions::default()).map(drop),
        Runtime::new(&target).map(drop),
        session.save(cut()),
        Session::load(session.cache(), cut()).map(drop),
        model.render_chat("{}", &template).map(drop),
    ];
    for call in calls {
        let error = call.unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        assert!(error.message().contains("NUL"), "{error}");
    }
    assert!(!folder.join("cut").exists());
}

#[test]
fn a_nul_byte_in_a_text_is_text() {
    let tokens = model().tokenize("nul\0inside").unwrap();
    assert_eq!(model().detokenize(&tokens).unwrap(), "nul\0inside");
    let options = GenerateOptions {
        stop: vec!["\0".into()],
        ..up_to(2)
    };
    assert_eq!(begun().generate(&options).unwrap().new_tokens, 2);
    let conversation = format!("{{\"messages\": [{}]}}", message("user", "nul\0inside"));
    let rendered = chat_model()
        .render_chat(&conversation, &ChatOptions::default())
        .unwrap();
    assert!(rendered.text.contains("nul\0inside"));
}

#[test]
fn the_library_checks_arguments() {
    let error = begun().generate(&GenerateOptions {
        stop: vec!["fine".into(), String::new()],
        ..Default::default()
    });
    let error = error.unwrap_err();
    assert_eq!(
        (error.status(), error.detail()),
        (Status::InvalidArgument, 1)
    );
    let error = begun().top_logprobs(0, usize::MAX).unwrap_err();
    assert!(
        [Status::InvalidArgument, Status::State].contains(&error.status()),
        "{error}"
    );
    let options = SessionOptions {
        max_tokens: u32::MAX,
        ..Default::default()
    };
    let error = Session::new(&cache(1), &options).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
    let error = qinfer::evaluate(&mut [], &Default::default()).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
}
