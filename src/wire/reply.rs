//! What the host answers (PROTOCOL §3.3, §3.5, §6.2). The envelope is read once; the fields stay raw bytes until the
//! caller names the type it expects.

use super::{Members, object};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The keys that route a frame. Everything else is skipped without being decoded.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// The call this answers; absent in bare acknowledgements (PROTOCOL T5). Empty, and so nobody's, when it is no string.
    #[serde(rename = "_msgId", borrow, default, deserialize_with = "some_id")]
    pub msg_id: Option<Cow<'a, str>>,
    /// The host is still working: anything that JavaScript takes for true.
    #[serde(rename = "_heartbeat", default, deserialize_with = "truthy")]
    pub heartbeat: bool,
}

impl<'a> Envelope<'a> {
    /// Reads the routing keys of a frame; `None` when the frame is not a JSON object or names a key twice.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        object(frame).ok()
    }

    /// The first thing in an unreadable frame that looks like its id: the call then fails at once, instead of waiting for a
    /// reply that has already come.
    pub fn guess_id(frame: &[u8]) -> Option<u64> {
        let key = br#""_msgId""#;
        let at = frame.windows(key.len()).position(|window| window == key)? + key.len();
        let rest = frame[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Whole, or it may be the beginning of another call's.
        let text = rest.get(digits).filter(|byte| **byte == b'"').and(std::str::from_utf8(&rest[..digits]).ok())?;
        text.parse().ok()
    }
}

fn some_id<'de: 'a, 'a, D: Deserializer<'de>>(source: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    let raw = Option::<&'de RawValue>::deserialize(source)?;
    Ok(raw.map(|raw| serde_json::from_str::<String>(raw.get()).map_or(Cow::Borrowed(""), Cow::Owned)))
}

fn truthy<'de, D: Deserializer<'de>>(source: D) -> Result<bool, D::Error> {
    let raw = <&'de RawValue>::deserialize(source)?;
    Ok(match serde_json::from_str::<Value>(raw.get()) {
        Ok(Value::Null | Value::Bool(false)) => false,
        Ok(Value::String(text)) => !text.is_empty(),
        Ok(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => true,
    })
}

/// One answer, still as bytes.
#[derive(Debug, Clone)]
pub struct Reply(Bytes);

impl Reply {
    /// Wraps a frame's or a body's bytes.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self(body.into())
    }

    /// Was it meant to be a JSON object without being JSON? A page of HTML was not, and asking again would bring another.
    fn is_broken_object(&self) -> bool {
        let json = || serde_json::from_slice::<serde::de::IgnoredAny>(&self.0).is_ok();
        self.0.trim_ascii_start().starts_with(b"{") && !json()
    }

    /// `Err` with the host's words when the answer is not exactly `ok: true`.
    pub fn accepted(&self) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Status {
            ok: Option<Value>,
            error: Option<Value>,
        }
        let status = self.read::<Status>().or_else(|error| match std::str::from_utf8(&self.0) {
            Ok(text) => object(super::surrogates::repair(text).as_bytes()),
            Err(_) => Err(error),
        });
        let status = status.map_err(|error| match error.to_string().starts_with("duplicate field") {
            true => "the host's answer has a field twice".to_owned(),
            false => "the host's answer is not a JSON object".to_owned(),
        })?;
        match (status.ok, status.error) {
            (Some(Value::Bool(true)), _) => Ok(()),
            (_, Some(Value::String(error))) => Err(error),
            (_, Some(error)) => Err(error.to_string()),
            (None | Some(Value::Bool(false)), None) => Err("the host refused without a reason".to_owned()),
            (Some(_), None) => Err("the host's answer has an \"ok\" that is neither true nor false".to_owned()),
        }
    }

    /// The answer's fields in the host's order, envelope keys included. Lone surrogates become U+FFFD: a tool's answer carries
    /// other people's text. `None` when the answer is not a JSON object or names a key of the envelope twice.
    pub fn fields(&self) -> Option<Members> {
        Envelope::read(&self.0)?;
        #[derive(Deserialize)]
        struct Status {
            #[serde(default, rename = "ok")]
            _ok: Option<Value>,
        }
        self.read::<Status>().ok()?;
        let text = std::str::from_utf8(&self.0).ok()?;
        serde_json::from_str(&super::surrogates::repair(text)).ok()
    }

    /// Decodes the answer, a JSON object, as `T`; a duplicate key is an error, so that two readers cannot read it differently.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        object(&self.0)
    }
}

/// One part of a model's reply (PROTOCOL §6.2).
#[derive(Debug, Clone)]
pub enum Chunk {
    /// A piece of text; pieces are joined with nothing between.
    Text(String),
    /// A tool call.
    ToolUse(ToolCall),
    /// The end, with the tokens used.
    Done(Usage),
    /// The reply ended at a limit. Said by the link that asks a provider itself: its figure for the tokens does not tell.
    Cut,
    /// Reasoning and whatever the host may add later: ignored.
    Other,
}

/// A tool call as the model wrote it. The arguments stay raw: they are decoded once, strictly, by the tool.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call; may be empty or repeated in a broken reply.
    #[serde(default, deserialize_with = "text_or_empty")]
    pub id: String,
    /// The tool's name; empty when there is none.
    #[serde(default, deserialize_with = "text_or_empty")]
    pub name: String,
    /// The arguments' JSON text; absent counts as `null`.
    #[serde(default)]
    pub args: Option<Box<RawValue>>,
}

/// Tokens of one model turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

impl Usage {
    /// Counts are for information: one that is no number must not cost the reply.
    fn from_value(usage: &Value) -> Self {
        let count = |key: &str| {
            let number = usage.get(key)?;
            let written = || number.as_str().and_then(|text| text.trim().parse().ok());
            number.as_u64().or_else(|| number.as_f64().map(|number| number as u64)).or_else(written)
        };
        Self { input_tokens: count("inputTokens").unwrap_or(0), output_tokens: count("outputTokens").unwrap_or(0) }
    }
}

/// A string; anything else counts as an empty one, so that a broken part costs a call and not the reply.
fn text_or_empty<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(source)? {
        Value::String(text) => text,
        _ => String::new(),
    })
}

/// Why an `llm_call` has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelFault {
    /// The host's words.
    #[error("{0}")]
    Refused(String),
    /// The reply came and cannot be read; the model may do better when asked again.
    #[error("{0}")]
    Broken(String),
}

impl Reply {
    /// The parts of an `llm_call` reply, in order.
    ///
    /// Replies have megabytes, and nearly all are well formed, so they are read in one pass. Only one that is not goes
    /// through the tolerant reading, part by part.
    pub fn chunks(&self) -> Result<Vec<Chunk>, ModelFault> {
        #[derive(Deserialize)]
        struct Body {
            ok: Option<bool>,
            chunks: Option<Vec<Part>>,
        }
        let parts = match self.read::<Body>() {
            Ok(Body { ok: Some(true), chunks: Some(chunks) }) => chunks,
            _ => return self.tolerant_chunks(),
        };
        parts.into_iter().map(Part::chunk).collect::<Option<_>>().map_or_else(|| self.tolerant_chunks(), Ok)
    }

    fn tolerant_chunks(&self) -> Result<Vec<Chunk>, ModelFault> {
        #[derive(Deserialize)]
        struct Body {
            chunks: Option<Vec<Box<RawValue>>>,
        }
        let broken = || ModelFault::Broken("the model's reply is not valid JSON".to_owned());
        self.accepted().map_err(|error| if self.is_broken_object() { broken() } else { ModelFault::Refused(error) })?;
        let body: Body = self.read().map_err(|_| broken())?;
        // None at all is not a model that says nothing, which would end the turn without a word (PROTOCOL T1).
        let chunks = body.chunks.ok_or_else(|| ModelFault::Broken("the host's reply has no chunks".to_owned()))?;
        let mut read = Vec::with_capacity(chunks.len());
        for group in chunks.chunk_by(|one, next| literal(one).is_some() && literal(next).is_some()) {
            match group {
                // Of a character that was split over two pieces each has a half.
                [_, _, ..] => {
                    read.push(Chunk::Text(joined(group).ok_or_else(|| ModelFault::Broken(broken_part("text")))?))
                }
                group => read.extend(
                    group.iter().map(|raw| chunk(raw)).collect::<Result<Vec<_>, _>>().map_err(ModelFault::Broken)?,
                ),
            }
        }
        Ok(read)
    }
}

/// A well-formed part.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    content: Option<String>,
    tool_call: Option<ToolCall>,
    usage: Option<Value>,
}

impl Part {
    fn chunk(self) -> Option<Chunk> {
        Some(match self.kind.as_str() {
            "text" => Chunk::Text(self.content?),
            "tool_use" => Chunk::ToolUse(self.tool_call?),
            "done" => Chunk::Done(Usage::from_value(&self.usage.unwrap_or_default())),
            "cut" => Chunk::Cut,
            _ => Chunk::Other,
        })
    }
}

/// What stands between the quotes of a piece of text, as it was sent.
fn literal(raw: &RawValue) -> Option<&str> {
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let text: Text<'_> = serde_json::from_str(raw.get()).ok()?;
    text.content.get().strip_prefix('"')?.strip_suffix('"').filter(|_| text.kind == "text")
}

fn joined(pieces: &[Box<RawValue>]) -> Option<String> {
    let literals: String = pieces.iter().filter_map(|raw| literal(raw)).collect();
    serde_json::from_str(&super::surrogates::repair(&format!("\"{literals}\""))).ok()
}

fn broken_part(what: &str) -> String {
    format!("the model's reply holds a broken {what}")
}

fn chunk(raw: &RawValue) -> Result<Chunk, String> {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Text {
        #[serde(default, deserialize_with = "text_or_empty")]
        content: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Use<T> {
        tool_call: T,
    }
    #[derive(Deserialize)]
    struct Args {
        #[serde(default)]
        args: Option<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Done {
        #[serde(default)]
        usage: Value,
    }
    let text = super::surrogates::repair(raw.get());
    let broken = broken_part;
    let tag: Tag<'_> = serde_json::from_str(&text).map_err(|_| broken("chunk"))?;
    Ok(match &*tag.kind {
        "text" => Chunk::Text(serde_json::from_str::<Text>(&text).map_err(|_| broken("text"))?.content),
        "tool_use" => {
            let mut call = serde_json::from_str::<Use<ToolCall>>(&text).map_err(|_| broken("tool call"))?.tool_call;
            // Not from the repaired text: arguments with a lone surrogate must fail as that call's error, not run changed.
            let raw: Use<Args> = serde_json::from_str(raw.get()).map_err(|_| broken("tool call"))?;
            call.args = raw.tool_call.args;
            Chunk::ToolUse(call)
        }
        "done" => {
            let done: Done = serde_json::from_str(&text).map_err(|_| broken("end"))?;
            Chunk::Done(Usage::from_value(&done.usage))
        }
        _ => Chunk::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ok_true_is_accepted() {
        for (body, wanted) in [
            (r#"{"ok":true}"#, Ok(())),
            (r#"{"ok":false,"error":"no"}"#, Err("no")),
            (r#"{"error":{"message":"m"}}"#, Err(r#"{"message":"m"}"#)),
            (r#"{}"#, Err("the host refused without a reason")),
            (r#"{"ok":"true"}"#, Err("the host's answer has an \"ok\" that is neither true nor false")),
            (r#"{"ok":1,"error":"no"}"#, Err("no")),
            (r#"{"ok":null,"error":null}"#, Err("the host refused without a reason")),
            (r#"{"ok":false,"ok":true}"#, Err("the host's answer has a field twice")),
            ("[true]", Err("the host's answer is not a JSON object")),
            ("<html>", Err("the host's answer is not a JSON object")),
        ] {
            let reply = Reply::new(body.as_bytes().to_vec());
            assert_eq!(reply.accepted(), wanted.map_err(str::to_owned), "{body}");
        }
    }

    #[test]
    fn a_lone_surrogate_stays_inside_its_chunk() {
        let body = br#"{"ok":true,"chunks":[{"type":"text","content":"a\ud83d"},
            {"type":"tool_use","toolCall":{"id":"1","name":"bash","args":{"command":"\ud83d"}}},
            {"type":"thinking","content":"x"},{"type":"done"}]}"#;
        let chunks = Reply::new(body.to_vec()).chunks().unwrap();
        assert!(matches!(&chunks[0], Chunk::Text(text) if text == "a\u{fffd}"));
        let Chunk::ToolUse(call) = &chunks[1] else { panic!("not a call") };
        assert!(serde_json::from_str::<Value>(call.args.as_ref().unwrap().get()).is_err());
        assert!(matches!(chunks[2], Chunk::Other));
        assert!(matches!(chunks[3], Chunk::Done(Usage { input_tokens: 0, output_tokens: 0 })));
    }

    #[test]
    fn a_character_split_over_two_pieces_is_whole() {
        let body = br#"{"ok":true,"chunks":[{"type":"text","content":"a\ud83d"},{"content":"\ude00b","type":"text"},
            {"type":"text","content":"\ud83d"},{"type":"text","content":7},{"type":"thinking","content":"\ude00"},
            {"type":"text","content":"c"},{"type":"done"}]}"#;
        let chunks = Reply::new(body.to_vec()).chunks().unwrap();
        let texts =
            chunks.iter().filter_map(|chunk| if let Chunk::Text(text) = chunk { Some(text.as_str()) } else { None });
        assert_eq!(texts.collect::<Vec<_>>(), ["a\u{1f600}b\u{fffd}", "", "c"]);
    }

    #[test]
    fn tokens_are_counted_however_they_are_written() {
        for (count, wanted) in
            [("8192", 8192), ("8192.0", 8192), ("\"8192\"", 8192), ("null", 0), ("-1", 0), ("\"many\"", 0)]
        {
            let body = format!(r#"{{"ok":true,"chunks":[{{"type":"done","usage":{{"outputTokens":{count}}}}}]}}"#);
            let chunks = Reply::new(body).chunks().unwrap();
            assert!(
                matches!(chunks[0], Chunk::Done(Usage { output_tokens, .. }) if output_tokens == wanted),
                "{count}"
            );
        }
    }

    #[test]
    fn routing_keys_are_found_wherever_they_stand() {
        let frame = br#"{"ok":true,"entry":{"_msgId":"9"},"_msgId":"4"}"#;
        assert_eq!(Envelope::read(frame).unwrap().msg_id.as_deref(), Some("4"));
        assert!(Envelope::read(br#"{"_heartbeat":true,"ts":1}"#).unwrap().heartbeat);
        assert!(Envelope::read(br#"{"_msgId":"1","_msgId":"2"}"#).is_none());
        for (beat, id, wanted) in
            [("1", "5", true), ("\"\"", "[]", false), ("null", "{}", false), ("0.0", "true", false)]
        {
            let frame = format!("{{\"_heartbeat\":{beat},\"_msgId\":{id}}}");
            let read = Envelope::read(frame.as_bytes()).unwrap();
            assert_eq!((read.heartbeat, read.msg_id.as_deref()), (wanted, Some("")), "{frame}");
        }
        assert_eq!(Envelope::read(br#"{"_msgId":null}"#).unwrap().msg_id, None);
        assert_eq!(Envelope::read(br#"{"_msgId":"\u0031"}"#).unwrap().msg_id.as_deref(), Some("1"));
        assert!(Envelope::read(b"[]").is_none());
        assert_eq!(Envelope::guess_id(br#"{"ok":tru,"_msgId" : "12"}"#), Some(12));
        assert_eq!(Envelope::guess_id(br#"{"_msgId":"x"}"#), None);
        assert_eq!(Envelope::guess_id(b"<html>"), None);
    }
}
