//! The body of a reply, before the envelope.

use serde_json::{Map, Value, json};

/// What is sent.
#[derive(Debug)]
pub(crate) enum Body {
    /// A JSON object; the envelope's id is put in.
    Json(String),
    /// A JSON object that gets no id.
    Bare(String),
    /// These bytes, `{{msgId}}` replaced.
    Exact(String),
}

impl Body {
    /// `ok: true` and the handler's fields, which may override it (PROTOCOL §3.3).
    pub(crate) fn ok(fields: Value) -> Self {
        let mut body = Map::from_iter([("ok".to_owned(), Value::Bool(true))]);
        if let Value::Object(fields) = fields {
            body.extend(fields);
        }
        Self::Json(Value::Object(body).to_string())
    }

    /// The bytes to send. `id` is what stands in the envelope, if anything.
    pub(crate) fn bytes(&self, id: Option<&str>) -> Vec<u8> {
        match (self, id) {
            (Self::Exact(text), id) => text.replace("{{msgId}}", id.unwrap_or_default()).into_bytes(),
            (Self::Json(text), Some(id)) => match text.strip_suffix('}') {
                Some("{") => format!("{{\"_msgId\":{}}}", json!(id)).into_bytes(),
                Some(open) => format!("{open},\"_msgId\":{}}}", json!(id)).into_bytes(),
                None => text.clone().into_bytes(),
            },
            (Self::Json(text) | Self::Bare(text), _) => text.clone().into_bytes(),
        }
    }
}
