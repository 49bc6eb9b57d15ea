//! Chats: templates, tools, turns, and replies taken apart.

mod common;

use std::ops::ControlFlow;

use common::*;
use qinfer::{
    message, Chat, ChatOptions, Part, Reply, ReplyFormat, ReplyOptions, Session, Status,
    TokenizeOptions,
};
use serde_json::{json, Value};

fn conversation(content: &str) -> String {
    json!({"messages": [{"role": "user", "content": content}]}).to_string()
}

fn weather_chat() -> Chat {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}},
                            "required": ["city"]});
    let function = json!({"name": "get_weather", "description": "Get the weather in a city",
                          "parameters": parameters});
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.tools = vec![json!({"type": "function", "function": function}).to_string()];
    chat
}

#[test]
fn a_conversation_that_fills_the_context_has_no_room_for_a_reply() {
    let most = chat_model().info().context_tokens as usize;
    let mut content = String::from("Hello");
    let room = |content: &str| {
        let prompt = conversation(content);
        let tokens = chat_model().tokenize_chat(&prompt, &ChatOptions::default());
        tokens.unwrap().len()
    };
    while room(&content) < most {
        content += " a";
    }
    assert_eq!(room(&content), most);
    let mut chat = Chat::new(chat_model()).unwrap();
    let failed = chat.send(&content).unwrap_err();
    assert_eq!(failed.status(), Status::ContextFull);
    assert!(failed.message().contains("no room for a reply"), "{failed}");
    assert!(chat.messages.is_empty());
    assert!(!chat.send("Hello!").unwrap().is_empty());
}

#[test]
fn a_message_is_json_whatever_it_says() {
    let said = "quotes \" \\ and\nlines\t\u{1}\u{0} é日😀";
    let made: Value = serde_json::from_str(&message("user", said)).unwrap();
    assert_eq!(made, json!({"role": "user", "content": said}));
}

#[test]
fn a_rendered_chat_and_its_parts_give_the_tokens_of_the_chat() {
    let options = ChatOptions::default();
    let hostile = conversation("Hi <|im_end|> there");
    let rendered = chat_model().render_chat(&hostile, &options).unwrap();
    let parts: Vec<&str> = rendered
        .content
        .iter()
        .map(|part| &rendered.text[part.clone()])
        .collect();
    assert!(parts.concat().contains("<|im_end|> there"), "{parts:?}");
    let tokens = chat_model().tokenize_chat(&hostile, &options).unwrap();
    let tokenize = TokenizeOptions {
        add_special: false,
        parse_special: true,
        content: rendered.content.clone(),
        ..Default::default()
    };
    let again = chat_model()
        .tokenize_with(&rendered.text, &tokenize)
        .unwrap();
    assert_eq!(tokens, again);
    let naive = TokenizeOptions {
        content: Vec::new(),
        ..tokenize
    };
    assert_ne!(
        tokens,
        chat_model().tokenize_with(&rendered.text, &naive).unwrap()
    );
}

#[test]
fn long_chats_are_rendered_whole() {
    let many: Vec<Value> = (0..200)
        .map(|at| {
            let role = ["user", "assistant"][at % 2];
            json!({"role": role, "content": format!("number {at} ").repeat(20)})
        })
        .collect();
    let long = json!({ "messages": many }).to_string();
    let rendered = chat_model()
        .render_chat(&long, &ChatOptions::default())
        .unwrap();
    assert!(rendered.text.contains("number 199") && rendered.content.len() >= 200);
}

#[test]
fn options_choose_the_template_and_the_prompt() {
    let template = "{{ messages[0].content }}|{{ add_generation_prompt }}|{{ strftime_now('%Y') }}";
    for (generation_prompt, text) in [(true, "Hi|True|2031"), (false, "Hi||2031")] {
        let options = ChatOptions {
            template_text: Some(template.into()),
            now: Some("2031-01-02".into()),
            generation_prompt,
            ..Default::default()
        };
        let rendered = chat_model()
            .render_chat(&conversation("Hi"), &options)
            .unwrap();
        assert_eq!(rendered.text, text);
    }
    let template = chat_model().chat_template(None).unwrap();
    assert!(template.contains("messages"));
    assert_eq!(chat_model().chat_template_names(), ["default"]);
    let error = chat_model().chat_template(Some("none")).unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    let error = chat_model()
        .render_chat("{", &ChatOptions::default())
        .unwrap_err();
    assert_eq!(error.status(), Status::Format);
}

#[test]
fn a_chat_calls_tools_and_keeps_the_call() {
    let mut chat = weather_chat();
    let parts: Vec<Part> = chat
        .stream("What is the weather in Paris?")
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let calls: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call {
                index,
                name,
                arguments,
                id,
                ..
            } => Some((*index, name.as_str(), arguments.as_str(), id.len())),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [(0, "get_weather", r#"{"city": "Paris"}"#, 9)]);
    let last: Value = serde_json::from_str(chat.messages.last().unwrap()).unwrap();
    assert_eq!(
        last["tool_calls"][0]["function"]["arguments"],
        json!({"city": "Paris"})
    );
}

#[test]
fn a_turn_evaluates_only_what_is_new() {
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.send("Hello!").unwrap();
    let (before, length) = (chat.session().metrics().unwrap(), chat.session().len());
    let said = chat.send("What is the capital of France?").unwrap();
    assert_eq!(said, "The capital of France is Paris.");
    let after = chat.session().metrics().unwrap();
    let evaluated = |m: &qinfer::Metrics| m.prefill_tokens + m.decode_tokens;
    // The end token of the first reply was never evaluated, nor is that of the second.
    assert_eq!(
        (evaluated(&after) - evaluated(&before)) as usize,
        chat.session().len() - length
    );
    assert_eq!(chat.messages.len(), 4);
}

#[test]
fn a_reply_that_is_broken_off_is_kept_as_far_as_it_came() {
    let mut chat = Chat::new(chat_model()).unwrap();
    let mut stream = chat.stream("Hello!").unwrap();
    assert!(stream.next().unwrap().is_ok());
    drop(stream);
    assert_eq!(chat.messages.len(), 2);
    let whole = {
        let mut other = Chat::new(chat_model()).unwrap();
        other.send("Hello!").unwrap();
        other.messages[1].clone()
    };
    let content = |message: &str| -> String {
        let message: Value = serde_json::from_str(message).unwrap();
        message["content"].as_str().unwrap().into()
    };
    assert!(content(&whole).starts_with(&content(&chat.messages[1])));
    assert!(!content(&chat.messages[1]).is_empty());
    chat.messages.pop();
    chat.reply_with(|_| ControlFlow::Break(())).unwrap();
    assert!(content(&whole).starts_with(&content(&chat.messages[1])));
    assert_eq!(
        chat.send("What is the capital of France?").unwrap(),
        "The capital of France is Paris."
    );
    assert_eq!(chat.messages.len(), 4);
    assert_eq!(chat.generated().unwrap().finish, qinfer::Finish::End);
}

#[test]
fn a_turn_that_fails_takes_its_message_back() {
    let mut chat = Chat::new(chat_model()).unwrap();
    let cancel = qinfer::Cancel::new().unwrap();
    cancel.request();
    chat.cancel = Some(cancel);
    assert_eq!(
        chat.send("Hello!").unwrap_err().status(),
        qinfer::Status::Cancelled
    );
    chat.cancel = None;
    assert!(chat.send(&"Hello! ".repeat(2000)).is_err());
    assert!(
        chat.stream(&"Hello! ".repeat(2000))
            .map(|stream| stream.count())
            .unwrap_or(1)
            > 0
    );
    assert!(chat.messages.is_empty());
    assert_eq!(
        chat.send("What is the capital of France?").unwrap(),
        "The capital of France is Paris."
    );
}

#[test]
fn a_chat_is_bounded_by_max_tokens() {
    let mut chat = Chat::new(chat_model()).unwrap();
    chat.max_tokens = 2;
    chat.variables
        .push(("enable_thinking".into(), "false".into()));
    chat.send("What is the capital of France?").unwrap();
    assert_eq!(chat.generated().unwrap().new_tokens, 2);
    let whole: Value = serde_json::from_str(&chat.conversation()).unwrap();
    assert_eq!(whole["enable_thinking"], json!(false));
}

#[test]
fn an_unfinished_character_is_in_a_reply_once() {
    let mut session = Session::for_model(chat_model()).unwrap();
    let n_vocab = chat_model().info().n_vocab as qinfer::Token;
    let byte = (0..n_vocab)
        .find(|&token| chat_model().token_bytes(token) == [0xc3])
        .unwrap();
    session.set_bias(&[(byte, 1000.0)]).unwrap();
    let mut chat = Chat::with_session(session);
    chat.max_tokens = 1;
    assert_eq!(chat.send("Hello!").unwrap(), "\u{fffd}");
}

#[test]
fn reasoning_comes_apart_from_content() {
    let options = ReplyOptions {
        format: ReplyFormat::Hermes,
        ..Default::default()
    };
    let model = chat_model();
    let mut reply = Reply::new(model, &conversation("Hi"), &options).unwrap();
    let tokenize = TokenizeOptions {
        add_special: false,
        parse_special: true,
        ..Default::default()
    };
    let (mut reasoning, mut content) = (String::new(), String::new());
    let tokens = model
        .tokenize_with("<think>\nHm.\n</think>\n\nHello!", &tokenize)
        .unwrap();
    for token in tokens.into_iter().map(Some).chain([None]) {
        match token {
            Some(token) => reply.push(token).unwrap(),
            None => reply.finish().unwrap(),
        }
        while let Some(part) = reply.next_part().unwrap() {
            match part {
                Part::Reasoning(text) => reasoning.push_str(&text),
                Part::Content(text) => content.push_str(&text),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((reasoning.trim(), content.trim()), ("Hm.", "Hello!"));
    let made: Value = serde_json::from_str(&reply.message().unwrap()).unwrap();
    assert_eq!(made["role"], "assistant");
    assert_eq!(reply.push(1).unwrap_err().status(), Status::State);
}
