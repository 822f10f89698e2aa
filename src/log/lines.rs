//! Events to lines.

use super::{LogConfig, neutral::neutral, writer};
use serde_json::{Map, Value};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The turn under way: the last eight characters of its request id.
static REQUEST_ID: RwLock<String> = RwLock::new(String::new());

/// Binds the lines that follow to a turn (PROTOCOL §13 `reqId`).
pub fn set_request_id(request_id: &str) {
    let start = request_id.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    *REQUEST_ID.write().unwrap_or_else(PoisonError::into_inner) = request_id[start..].to_owned();
}

pub(super) struct JsonLines {
    default: LevelFilter,
    components: Vec<(String, LevelFilter)>,
    pid: u32,
    hostname: String,
}

impl JsonLines {
    pub(super) fn new(config: &LogConfig) -> Self {
        let components =
            config.components.iter().filter_map(|(name, level)| Some((name.clone(), parse_level(level)?))).collect();
        Self {
            default: config.level.as_deref().and_then(parse_level).unwrap_or(LevelFilter::INFO),
            components,
            pid: std::process::id(),
            hostname: nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }

    fn most_verbose(&self) -> LevelFilter {
        self.components.iter().map(|(_, level)| *level).chain([self.default]).max().unwrap_or(self.default)
    }

    fn wants(&self, component: &str, level: Level) -> bool {
        let limit =
            self.components.iter().find(|(name, _)| name == component).map_or(self.default, |(_, level)| *level);
        level <= limit
    }
}

/// Unknown names are ignored (PROTOCOL §13).
fn parse_level(name: &str) -> Option<LevelFilter> {
    match name {
        "trace" => Some(LevelFilter::TRACE),
        "debug" => Some(LevelFilter::DEBUG),
        "info" => Some(LevelFilter::INFO),
        "warn" => Some(LevelFilter::WARN),
        "error" | "fatal" => Some(LevelFilter::ERROR),
        "silent" => Some(LevelFilter::OFF),
        _ => None,
    }
}

/// A subscriber of its own instead of layers over a registry of spans: nothing here has spans, and that registry is most
/// of what logging would cost a start.
impl Subscriber for JsonLines {
    /// Libraries trace their own doings, addresses and headers among them; only our events are lines.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("ax_runner")
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most_verbose())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let component = fields.component.unwrap_or_else(|| "runner".to_owned());
        let level = *event.metadata().level();
        if !self.wants(&component, level) {
            return;
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let request_id = REQUEST_ID.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut line = String::with_capacity(256);
        let head = [
            ("level", Value::from(number(level))),
            ("time", Value::from(time)),
            ("pid", Value::from(self.pid)),
            ("hostname", Value::from(self.hostname.as_str())),
            ("component", Value::from(component)),
        ];
        let request = (!request_id.is_empty()).then(|| ("reqId", Value::from(request_id)));
        let details = fields.details.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let message = Some(("msg", Value::from(fields.message)));
        for (key, value) in head.into_iter().chain(request).chain(details).chain(message) {
            line.push(if line.is_empty() { '{' } else { ',' });
            line.push_str(&format!("{}:{value}", Value::from(key)));
        }
        line.push_str("}\n");
        writer::write(neutral(&line).into_bytes());
    }

    // Spans are never enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn number(level: Level) -> u8 {
    match level {
        Level::TRACE => 10,
        Level::DEBUG => 20,
        Level::INFO => 30,
        Level::WARN => 40,
        Level::ERROR => 50,
    }
}

#[derive(Default)]
struct Fields {
    component: Option<String>,
    message: String,
    details: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("component", Value::String(name)) => self.component = Some(name),
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.details.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }
}
