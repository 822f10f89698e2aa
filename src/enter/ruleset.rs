//! The rules as text, and the check that the kernel holds exactly them.
//!
//! One `inet` table, so that IPv4 and IPv6 are one case. Its hooks come before connection tracking and address
//! translation: an embedded resolver at 127.0.0.11 is judged before NAT gives its packets another port, and no
//! `established` state lets an old flow through. Replies are recognised by not being an opening segment.
//!
//! A translation of somebody else's may send on what was judged to be loopback, so `postrouting` judges again behind all of
//! them, by where a packet goes now. No mark is carried over: an allowed destination that is translated to one that is not
//! has no way back through `input`, which sees the true sender.
//!
//! The first two lines of the text make a reload replace the table in one transaction. A table once loaded is never
//! removed by us: taking it away could only open something.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Name of our table.
pub(crate) const TABLE: &str = "ax_egress";
/// Before raw (-300), connection tracking (-200) and destination NAT (-100).
const BEFORE_ALL: i64 = -310;
/// Behind source NAT (100) and the helpers of connection tracking (300).
const BEHIND_ALL: i64 = 310;

/// The text for `nft -f -`.
pub(crate) fn render(allowed: &BTreeSet<SocketAddr>) -> String {
    let mut text = format!("table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
    for (version, type_) in [(4, "ipv4_addr"), (6, "ipv6_addr")] {
        let elements: Vec<_> = of(allowed, version).map(|to| format!("{} . {}", to.ip(), to.port())).collect();
        if !elements.is_empty() {
            let _ = writeln!(
                text,
                "  set allowed{version} {{\n    type {type_} . inet_service\n    elements = {{ {} }}\n  }}",
                elements.join(",\n      ")
            );
        }
    }
    for (chain, priority) in CHAINS {
        let _ = writeln!(text, "  chain {chain} {{\n    type filter hook {chain} priority {priority}; policy drop;");
        for rule in rules(chain, allowed) {
            let _ = writeln!(text, "    {} comment \"{}\"", rule.text, rule.name);
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

/// What the check took from a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Packets refused so far.
    pub refused: u64,
}

/// Each named after its hook.
const CHAINS: [(&str, i64); 4] =
    [("output", BEFORE_ALL), ("input", BEFORE_ALL), ("forward", BEFORE_ALL), ("postrouting", BEHIND_ALL)];

struct Rule {
    /// Its comment, by which it is found again.
    name: &'static str,
    text: &'static str,
    verdict: &'static str,
    /// Right-hand sides of its matches, as the listing shows them.
    matches: &'static [&'static str],
}

const RESOLVER: Rule = Rule {
    name: "engine resolver",
    text: "ip daddr 127.0.0.11 counter reject with icmpx admin-prohibited",
    verdict: "reject",
    matches: &["127.0.0.11"],
};
/// A reset ends a connection attempt at once for both versions; an ICMPv6 error reaches the caller only after the first
/// retransmission, a second later.
const REFUSE_TCP: Rule = Rule {
    name: "refuse tcp",
    text: "meta l4proto tcp counter reject with tcp reset",
    verdict: "reject",
    matches: &["tcp"],
};
const REFUSE: Rule =
    Rule { name: "refuse", text: "counter reject with icmpx admin-prohibited", verdict: "reject", matches: &[] };
/// The same where the kernel cannot reject any more. The sender's call fails all the same.
const RESOLVER_BEHIND: Rule = Rule {
    name: "engine resolver, translated",
    text: "ip daddr 127.0.0.11 counter drop",
    verdict: "drop",
    matches: &["127.0.0.11"],
};
const REFUSE_BEHIND: Rule = Rule { name: "refuse translated", text: "counter drop", verdict: "drop", matches: &[] };
const LOOPBACK_OUT: Rule =
    Rule { name: "loopback out", text: "oifname \"lo\" accept", verdict: "accept", matches: &["lo"] };
const LOOPBACK_IN: Rule =
    Rule { name: "loopback in", text: "iifname \"lo\" accept", verdict: "accept", matches: &["lo"] };
const OUT4: Rule = Rule {
    name: "allowed out 4",
    text: "ip daddr . tcp dport @allowed4 accept",
    verdict: "accept",
    matches: &["@allowed4"],
};
const OUT6: Rule = Rule {
    name: "allowed out 6",
    text: "ip6 daddr . tcp dport @allowed6 accept",
    verdict: "accept",
    matches: &["@allowed6"],
};
const IN4: Rule = Rule {
    name: "replies 4",
    text: "ip saddr . tcp sport @allowed4 tcp flags & (syn | ack) != syn accept",
    verdict: "accept",
    matches: &["@allowed4", "syn"],
};
const IN6: Rule = Rule {
    name: "replies 6",
    text: "ip6 saddr . tcp sport @allowed6 tcp flags & (syn | ack) != syn accept",
    verdict: "accept",
    matches: &["@allowed6", "syn"],
};
/// Path MTU discovery: without these a smaller link on the way is a connection that hangs.
const MTU4: Rule = Rule {
    name: "path mtu 4",
    text: "icmp type destination-unreachable icmp code frag-needed accept",
    verdict: "accept",
    matches: &["destination-unreachable", "4"],
};
const MTU6: Rule = Rule {
    name: "path mtu 6",
    text: "icmpv6 type packet-too-big accept",
    verdict: "accept",
    matches: &["packet-too-big"],
};
/// IPv6 cannot find its neighbour without; only when a v6 destination is allowed.
const NEIGHBOUR_OUT: Rule = Rule {
    name: "neighbours out",
    text: "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
    verdict: "accept",
    matches: &["nd-neighbor-advert,nd-neighbor-solicit", "255"],
};
const NEIGHBOUR_IN: Rule = Rule { name: "neighbours in", ..NEIGHBOUR_OUT };

fn rules(chain: &str, allowed: &BTreeSet<SocketAddr>) -> Vec<Rule> {
    let (v4, v6) = (of(allowed, 4).next().is_some(), of(allowed, 6).next().is_some());
    let mut list = Vec::new();
    let onward = || v4.then_some(OUT4).into_iter().chain(v6.then_some([OUT6, NEIGHBOUR_OUT]).into_iter().flatten());
    match chain {
        "output" => {
            list.extend([RESOLVER, LOOPBACK_OUT]);
            list.extend(onward());
            list.extend([REFUSE_TCP, REFUSE]);
        }
        "postrouting" => {
            list.extend([RESOLVER_BEHIND, LOOPBACK_OUT]);
            list.extend(onward());
            list.push(REFUSE_BEHIND);
        }
        "input" => {
            list.push(LOOPBACK_IN);
            list.extend(v4.then_some([IN4, MTU4]).into_iter().flatten());
            list.extend(v6.then_some([IN6, MTU6, NEIGHBOUR_IN]).into_iter().flatten());
        }
        _ => {}
    }
    list
}

fn of(allowed: &BTreeSet<SocketAddr>, version: u8) -> impl Iterator<Item = &SocketAddr> {
    allowed.iter().filter(move |to| to.is_ipv4() == (version == 4))
}

/// Compares what `nft -j list table` printed with what was asked for.
pub(crate) fn check(listing: &[u8], allowed: &BTreeSet<SocketAddr>) -> Result<Listing, String> {
    let document: Value = serde_json::from_slice(listing).map_err(|_| "the listing is empty or no JSON".to_owned())?;
    let objects = document["nftables"].as_array().ok_or("the listing has no objects")?;
    let ours = |kind: &str| -> Vec<&Value> {
        objects
            .iter()
            .filter_map(|object| object.get(kind))
            .filter(|object| object["family"] == "inet" && (kind == "table" || object["table"] == TABLE))
            .collect()
    };
    let tables: Vec<_> = ours("table").into_iter().filter(|table| table["name"] == TABLE).collect();
    match tables[..] {
        [table] if table.get("flags").is_none() => {}
        [_] => return Err("the table is switched off by a flag".to_owned()),
        _ => return Err("the table is not there".to_owned()),
    }
    check_chains(&ours("chain"))?;
    check_sets(&ours("set"), allowed)?;
    let mut refused = 0;
    let listed = ours("rule");
    for (chain, _) in CHAINS {
        let mine: Vec<_> = listed.iter().filter(|rule| rule["chain"] == chain).collect();
        let expected = rules(chain, allowed);
        if mine.len() != expected.len() {
            return Err(format!("the chain {chain} has {} rules, not {}", mine.len(), expected.len()));
        }
        for (rule, expected) in mine.into_iter().zip(&expected) {
            refused += check_rule(rule, expected).map_err(|what| format!("the rule {:?} {what}", expected.name))?;
        }
    }
    Ok(Listing { refused })
}

fn check_chains(chains: &[&Value]) -> Result<(), String> {
    if chains.len() != CHAINS.len() {
        return Err(format!("it has {} chains, not {}", chains.len(), CHAINS.len()));
    }
    for (name, priority) in CHAINS {
        let chain = chains.iter().find(|chain| chain["name"] == name).ok_or(format!("the chain {name} is missing"))?;
        let right = chain["type"] == "filter" && chain["hook"] == name && chain["policy"] == "drop";
        if !right || chain["prio"] != priority {
            return Err(format!("the chain {name} is not hooked with policy drop"));
        }
    }
    Ok(())
}

fn check_sets(sets: &[&Value], allowed: &BTreeSet<SocketAddr>) -> Result<(), String> {
    let mut found = BTreeSet::new();
    for element in sets.iter().flat_map(|set| set["elem"].as_array().into_iter().flatten()) {
        let pair = element["concat"].as_array().ok_or("a set holds something that is no single address")?;
        let [Value::String(address), port] = &pair[..] else { return Err("a set element cannot be read".to_owned()) };
        let address: IpAddr = address.parse().map_err(|_| format!("a set holds {address:?}"))?;
        let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).ok_or("a set holds a strange port")?;
        found.insert(SocketAddr::new(address, port));
    }
    if found == *allowed { Ok(()) } else { Err("the allowed destinations are not those of the policy".to_owned()) }
}

/// Returns the packets its counter has seen.
fn check_rule(rule: &Value, expected: &Rule) -> Result<u64, String> {
    if rule["comment"] != expected.name {
        return Err("is not where it belongs".to_owned());
    }
    let statements = rule["expr"].as_array().ok_or("has no statements")?;
    let (Some(last), mut packets, mut matches) = (statements.last(), 0, Vec::new()) else {
        return Err("is empty".to_owned());
    };
    if last.get(expected.verdict).is_none() {
        return Err(format!("does not {}", expected.verdict));
    }
    for statement in &statements[..statements.len() - 1] {
        if let Some(counter) = statement.get("counter") {
            packets = counter["packets"].as_u64().unwrap_or(0);
        } else if let Some(test) = statement.get("match") {
            matches.push(right_side(&test["right"]));
        } else {
            return Err("has a statement that is not ours".to_owned());
        }
    }
    if matches != expected.matches {
        return Err(format!("matches {matches:?}"));
    }
    Ok(packets)
}

fn right_side(value: &Value) -> String {
    // nft 1.0 shows this code by its name, 1.1 by its number.
    let scalar = |value: &Value| match value.as_str() {
        Some("frag-needed") => "4".to_owned(),
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    match value.get("set").and_then(Value::as_array) {
        Some(members) => {
            let mut members: Vec<_> = members.iter().map(scalar).collect();
            members.sort();
            members.join(",")
        }
        None => scalar(value),
    }
}

#[cfg(test)]
#[path = "ruleset_tests.rs"]
mod tests;
