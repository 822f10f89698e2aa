use super::*;
use crate::text::units;
use crate::wire::{Action, LlmCall, Meta};
use proptest::prelude::*;
use serde_json::json;
use std::collections::HashSet;

fn room(request_max: usize) -> Room {
    Room::new(request_max, 50_000)
}

fn talk(turns: usize, text: &str) -> Vec<Message> {
    let role = |at: usize| if at.is_multiple_of(2) { Role::User } else { Role::Assistant };
    (0..turns).map(|at| Message::text(role(at), text)).collect()
}

fn calls(round: usize, count: usize, argument: &str) -> (Message, Vec<String>) {
    let ids: Vec<String> = (0..count).map(|at| format!("c{round}_{at}")).collect();
    let block =
        |id: &String| Block::ToolUse { id: id.clone(), name: "bash".into(), input: json!({"command": argument}) };
    (Message::blocks(Role::Assistant, ids.iter().map(block).collect()), ids)
}

/// What a strict host and a strict provider ask of a request.
fn check(messages: &[Message], request_max: usize) -> Result<(), String> {
    if messages.len() > limits::LLM_MESSAGES_MAX - 1 {
        return Err(format!("{} messages", messages.len()));
    }
    if messages.first().map(|first| first.role) != Some(Role::User)
        || messages.last().map(|last| last.role) != Some(Role::User)
    {
        return Err("begins or ends with the model".into());
    }
    let mut open: HashSet<String> = HashSet::new();
    for message in messages {
        let blocks = match &message.content {
            Content::Text(text) if text.trim().is_empty() || units(text) > limits::MESSAGE_MAX_UNITS => {
                return Err("a text".into());
            }
            Content::Text(_) => &Vec::new(),
            Content::Blocks(blocks) => blocks,
        };
        if blocks.is_empty() == matches!(message.content, Content::Blocks(_)) {
            return Err("no blocks".into());
        }
        for block in blocks {
            match block {
                Block::ToolUse { id, input, .. } if input.is_object() && open.insert(id.clone()) => {}
                Block::ToolResult { tool_use_id, content } if open.remove(tool_use_id) => {
                    if content.is_empty() || units(content) > limits::TOOL_RESULT_HOST_MAX_UNITS {
                        return Err("a result".into());
                    }
                }
                Block::Text { text } if !text.trim().is_empty() => {}
                Block::ImageData { .. } => {}
                other => return Err(format!("{other:?}")),
            }
        }
        let results = blocks.iter().any(|block| matches!(block, Block::ToolResult { .. }));
        if !open.is_empty() && !results && message.role == Role::User {
            return Err("calls without results".into());
        }
    }
    let call =
        LlmCall { model: None, task_type: None, messages: messages.to_vec(), tools: [].into(), max_tokens: None };
    let bytes = Action::LlmCall(call).encode(None, &Meta::default()).unwrap().len() + 50_000;
    if !open.is_empty() || bytes > request_max {
        return Err(format!("{bytes} bytes of {request_max}, open {open:?}"));
    }
    Ok(())
}

#[test]
fn what_fits_stays_as_it_is() {
    let mut conversation = Conversation::new(talk(4, "hi"), &Content::Text("now".into()), room(10_000_000));
    let (said, ids) = calls(0, 2, "ls");
    conversation.add(said.clone(), ids.iter().map(|id| (id.clone(), format!("result of {id}"))));
    let result = |id: &str| {
        Message::blocks(
            Role::User,
            vec![Block::ToolResult { tool_use_id: id.into(), content: format!("result of {id}") }],
        )
    };
    let mut wanted = talk(4, "hi");
    wanted.extend([Message::text(Role::User, "now"), said, result("c0_0"), result("c0_1")]);
    assert_eq!(conversation.messages(), wanted);
}

#[test]
fn a_summary_outlasts_the_turns_after_it() {
    let summary = vec![Message::text(Role::User, "the summary"), Message::text(Role::Assistant, "read")];
    let mut conversation =
        Conversation::new(talk(80, &"h".repeat(5000)), &Content::Text("task".into()), room(300_000)).after(summary);
    let messages = conversation.messages();
    let first = messages[0].content.to_text("");
    assert!(first.contains("messages that followed this summary.]") && first.ends_with("the summary"), "{first}");
    assert!(
        messages.len() > 4 && messages.len() < 83 && messages[1] == Message::text(Role::Assistant, "read"),
        "{messages:?}"
    );
}

#[test]
fn media_are_there_in_every_round() {
    let image = Block::ImageData { data: "A".repeat(400_000), mime_type: "image/png".into() };
    let message = Content::Blocks(vec![Block::Text { text: "look".into() }, image.clone()]);
    for (request_max, kept) in [(10_000_000, true), (1_048_576, true), (500_000, false)] {
        let mut conversation = Conversation::new(vec![], &message, room(request_max));
        for round in 0..3 {
            let (said, ids) = calls(round, 1, "x");
            conversation.add(said, ids.into_iter().map(|id| (id, "y".repeat(150_000))));
            let messages = conversation.messages();
            check(&messages, request_max).unwrap();
            let Content::Blocks(blocks) = &messages[0].content else { panic!("no blocks") };
            assert_eq!(blocks.contains(&image), kept, "{request_max}");
            assert_eq!(blocks[0], Block::Text { text: "look".into() });
            assert_eq!(blocks.len(), 2);
        }
    }
    let mut alone = Conversation::new(vec![], &Content::Blocks(vec![image.clone()]), room(10_000_000));
    assert_eq!(alone.messages(), [Message::blocks(Role::User, vec![image])]);
    let mut nothing = Conversation::new(vec![], &Content::Blocks(vec![]), room(10_000_000));
    assert_eq!(nothing.messages(), [Message::text(Role::User, ".")]);
}

#[test]
fn room_is_made_where_it_is_missed_least() {
    let mut conversation =
        Conversation::new(talk(10, &"h".repeat(5000)), &Content::Text("task".into()), room(10_000_000));
    for round in 0..5 {
        let (said, ids) = calls(round, 1, &"a".repeat(3000));
        conversation.add(said, ids.into_iter().map(|id| (id, format!("{round} {}", "r".repeat(150_000)))));
    }
    let messages = conversation.messages();
    check(&messages, 10_000_000).unwrap();
    let text = |at: usize| serde_json::to_string(&messages[at]).unwrap();
    assert!(text(12).contains("[shortened to make room: 149002 of 150002 characters left out here; let a command"));
    assert!(text(20).contains(&"r".repeat(150_000)), "the last round is whole");
    assert!(text(11).contains(&"a".repeat(3000)), "arguments were not needed");
    assert_eq!(messages[..10], talk(10, &"h".repeat(5000)));
    // Once made, the cuts stay, and the beginning of the next request is the same.
    let (said, ids) = calls(5, 1, "x");
    conversation.add(said, ids.into_iter().map(|id| (id, "small".into())));
    assert_eq!(conversation.messages()[..messages.len()], messages);
}

/// What was said before cannot be had again, results can; but an error is not cut to nothing.
#[test]
fn the_newest_results_give_way_before_earlier_turns_do() {
    let before = talk(6, &"h".repeat(60_000));
    let mut conversation = Conversation::new(before.clone(), &Content::Text("task".into()), room(10_000_000));
    let (said, ids) = calls(0, 6, "x");
    let long = |at: usize| if at == 5 { "Error: short".repeat(15) } else { "r".repeat(168_000) };
    conversation.add(said, ids.into_iter().enumerate().map(|(at, id)| (id, long(at))));
    let messages = conversation.messages();
    check(&messages, 10_000_000).unwrap();
    assert!(messages[..6] == before, "a turn is missing");
    assert!(serde_json::to_string(&messages).unwrap().contains(&long(5)), "the short one is whole");

    let mut conversation = Conversation::new(vec![], &Content::Text("task".into()), room(10_000_000));
    let (said, ids) = calls(0, 1, "x");
    let Content::Blocks(mut blocks) = said.content else { panic!() };
    let Block::ToolUse { input, .. } = &mut blocks[0] else { panic!() };
    *input = json!({ "k".repeat(700_000): 1 });
    let said = Message::blocks(Role::Assistant, blocks);
    conversation.add(said, ids.into_iter().map(|id| (id, long(5))));
    assert!(serde_json::to_string(&conversation.messages()).unwrap().contains(&long(5)), "an error stays");
}

#[test]
fn what_was_cut_once_stays_as_it_is() {
    let mut conversation =
        Conversation::new(talk(100, "h"), &Content::Text("task".into()), Room::new(10_000_000, 50_000));
    let (mut sent, mut changes) = (Vec::new(), 0);
    for round in 0..70 {
        let (said, ids) = calls(round, 1, &"a".repeat(2000));
        conversation.add(said, ids.into_iter().map(|id| (id, "r".repeat(40_000))));
        let messages = conversation.messages();
        let same = messages.iter().zip(&sent).take_while(|(now, before)| now == before).count();
        changes += usize::from(same < sent.len());
        let text = serde_json::to_string(&messages).unwrap();
        for shown in text.split("[shortened to make room: ").skip(1) {
            assert!(shown.starts_with("39000 of 40000 characters left out here; let"), "{}", &shown[..90]);
        }
        sent = messages;
    }

    assert!(changes <= 20, "{changes} of 70 requests do not continue the one before");
}

#[test]
fn hundreds_of_messages_become_two_hundred() {
    let mut conversation = Conversation::new(talk(60, "h"), &Content::Text("task".into()), room(10_000_000));
    let (said, ids) = calls(0, 300, "x");
    conversation.add(said, ids.into_iter().map(|id| (id, "r".into())));
    let messages = conversation.messages();
    check(&messages, 10_000_000).unwrap();
    assert_eq!(messages.len(), 63, "results share a message, nothing is dropped");
    for round in 1..150 {
        let (said, ids) = calls(round, 1, "x");
        conversation.add(said, ids.into_iter().map(|id| (id, "r".into())));
        check(&conversation.messages(), 10_000_000).unwrap();
    }
    let first = serde_json::to_string(&conversation.messages()[0]).unwrap();
    assert!(first.contains("oldest messages of this conversation.]"), "{first}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn every_request_is_valid(
        turns in 0usize..250,
        turn in 0usize..3000,
        message in 0usize..250_000,
        rounds in prop::collection::vec((1usize..8, 0usize..20_000, prop_oneof![Just(10usize), 0usize..60_000, Just(220_000usize)]), 0..10),
        glyph in prop_oneof![Just("x"), Just("€"), Just("😀"), Just("\u{1}"), Just("\0"), Just(" ")],
        http: bool,
    ) {
        let request_max = if http { limits::HTTP_BODY_MAX_BYTES } else { limits::FRAME_SEND_MAX_BYTES };
        let history: Vec<crate::wire::HistoryTurn> = (0..turns)
            .map(|at| crate::wire::HistoryTurn {
                role: if at % 3 == 1 { "assistant" } else { "user" }.into(),
                content: Content::Text(glyph.repeat(turn / glyph.len())),
                sender: None,
            })
            .collect();
        let message = Content::Text(glyph.repeat(message / glyph.len()));
        let mut conversation = Conversation::new(crate::agent::history(&history), &message, room(request_max));
        for (round, (count, argument, result)) in rounds.into_iter().enumerate() {
            let (said, ids) = calls(round, count, &glyph.repeat(argument / glyph.len()));
            conversation.add(said, ids.into_iter().map(|id| (id, glyph.repeat(result / glyph.len()))));
            let messages = conversation.messages();
            prop_assert_eq!(check(&messages, request_max), Ok(()));
            let kept = conversation.bytes();
            prop_assert_eq!(recounted(conversation.clone()).bytes(), kept);
        }
    }
}

/// The same, with nothing taken from what was counted before.
fn recounted(conversation: Conversation) -> Conversation {
    let opening = conversation.summary.iter().chain(&conversation.history).map(size).sum::<usize>();
    Conversation {
        opening_bytes: opening + size(&conversation.message.show()),
        rounds: conversation.rounds.into_iter().map(Round::measured).collect(),
        ..conversation
    }
}
