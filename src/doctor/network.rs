//! Whether packets get out, and who sees to it.

use super::Layer;
use crate::enter::environment::Environment;
use crate::enter::interfaces;
use crate::enter::probe::{self, Attempt};

const NAME: &str = "network";

/// With `probe` packets are sent where there is a network to send them to.
pub(super) fn look(environment: &Environment, probe: bool) -> Layer {
    let claim = environment.get("AX_NET_ENFORCED_BY").ok().flatten();
    let said = claim.map_or_else(String::new, |claim| format!("; the entrypoint said \"{claim}\""));
    let networks = match interfaces::beyond_loopback() {
        Ok(found) if found.is_empty() => {
            return Layer::enforced(NAME, format!("there is nothing but loopback{said}"));
        }
        Ok(found) => found.into_iter().collect::<Vec<_>>().join(", "),
        Err(errno) => return Layer::failed(NAME, format!("interfaces cannot be listed: {errno}{said}")),
    };
    if !probe {
        return Layer::absent(NAME, format!("not tried, as --no-probe asks; there is a network ({networks}){said}"));
    }
    let attempts: Vec<_> =
        probe::outside().into_iter().flat_map(|to| [probe::datagram(to), probe::stream(to)]).collect();
    if attempts.contains(&Attempt::Open) {
        let detail = format!("packets leave over {networks}");
        // Enforcement elsewhere cannot be seen from inside; enforcement here can, and is not there.
        return match claim {
            Some(claim) if !claim.starts_with("external") => Layer::failed(NAME, format!("{detail}{said}")),
            _ => Layer::absent(NAME, format!("{detail}; if the platform filters them, it does so outside{said}")),
        };
    }
    if attempts.contains(&Attempt::Refused) {
        return Layer::enforced(NAME, format!("packets to unnamed destinations are refused here ({networks}){said}"));
    }
    Layer::enforced(NAME, format!("there is no route out ({networks}){said}"))
}
