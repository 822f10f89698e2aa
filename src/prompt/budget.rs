//! Which sections enter and in which form (PROTOCOL §10.3).

use super::{Form, Prompt, Section};
use crate::{limits, text};

/// A section before it is known how much room there is.
pub(super) struct Module {
    /// Its name in PROTOCOL §10.1.
    pub(super) name: &'static str,
    /// Everything it has to say; blank when it has nothing.
    pub(super) full: String,
    /// What to do when there is no room for that.
    pub(super) otherwise: Otherwise,
}

/// See [`Module::otherwise`].
pub(super) enum Otherwise {
    /// Required: cut, by a rule of the section's own that takes the units to lose.
    Cut(Box<dyn Fn(usize) -> String>),
    /// Required, and small enough that it never has to be cut.
    Keep,
    /// Optional, with a short form.
    Short(String),
    /// Optional.
    Drop,
}

/// What is left while sections enter.
struct Room {
    tokens: usize,
    units: usize,
}

impl Room {
    /// Takes the section's size if it fits.
    fn take(&mut self, section: &str) -> bool {
        let units = text::units(section) + SEPARATOR.len();
        let tokens = tokens(section);
        if units > self.units || tokens > self.tokens {
            return false;
        }
        self.units -= units;
        self.tokens -= tokens;
        true
    }

    /// Takes the section's size whatever is left.
    fn force(&mut self, section: &str) {
        self.units = self.units.saturating_sub(text::units(section) + SEPARATOR.len());
        self.tokens = self.tokens.saturating_sub(tokens(section));
    }
}

const SEPARATOR: &str = "\n\n";

fn tokens(section: &str) -> usize {
    text::units(section).div_ceil(limits::CHARS_PER_TOKEN)
}

/// Puts the modules, given in priority order, together.
pub(super) fn assemble(mut modules: Vec<Module>, history_tokens: usize) -> Prompt {
    for module in &mut modules {
        // The host refuses a prompt with a NUL (PROTOCOL §14).
        if module.full.contains('\0') {
            module.full = module.full.replace('\0', "\u{2400}");
        }
    }
    modules.retain(|module| !module.full.trim().is_empty());
    let cut = cut_required(&mut modules);
    let mut room = Room {
        tokens: (limits::CONTEXT_WINDOW_TOKENS - limits::PROMPT_OUTPUT_RESERVE_TOKENS).saturating_sub(history_tokens),
        units: limits::MESSAGE_MAX_UNITS,
    };
    for module in modules.iter().filter(|module| module.required()) {
        room.force(&module.full);
    }
    let mut parts: Vec<String> = Vec::new();
    let mut sections = Vec::new();
    for module in modules {
        let (form, part) = match (&module.otherwise, module.required()) {
            (_, true) => (if cut == Some(module.name) { Form::Cut } else { Form::Full }, Some(module.full)),
            _ if room.take(&module.full) => (Form::Full, Some(module.full)),
            (Otherwise::Short(short), _) if room.take(short) => (Form::Short, Some(short.clone())),
            _ => (Form::Dropped, None),
        };
        sections.push(Section { name: module.name, chars: part.as_deref().map_or(0, text::units), form });
        parts.extend(part);
    }
    Prompt { text: parts.join(SEPARATOR), sections }
}

impl Module {
    fn required(&self) -> bool {
        matches!(self.otherwise, Otherwise::Cut(_) | Otherwise::Keep)
    }
}

/// Cuts the section that can be cut until the required ones fit the host's limit; returns its name if it had to.
fn cut_required(modules: &mut [Module]) -> Option<&'static str> {
    let required = modules.iter().filter(|module| module.required());
    let total: usize = required.map(|module| text::units(&module.full) + SEPARATOR.len()).sum();
    let excess = total.checked_sub(limits::MESSAGE_MAX_UNITS).filter(|excess| *excess > 0)?;
    let module = modules.iter_mut().find(|module| matches!(module.otherwise, Otherwise::Cut(_)))?;
    if let Otherwise::Cut(shorten) = &module.otherwise {
        module.full = shorten(excess).replace('\0', "\u{2400}");
    }
    Some(module.name)
}
