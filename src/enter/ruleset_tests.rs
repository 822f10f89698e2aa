use super::*;

fn set(list: &[&str]) -> BTreeSet<SocketAddr> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// What `nft -j list table` prints for a rule set with one v4 destination.
fn listing() -> Value {
    serde_json::from_str(include_str!("../../fixtures/nft-listing.json")).unwrap()
}

fn allowed() -> BTreeSet<SocketAddr> {
    set(&["10.99.0.2:3128", "[fd00::2]:80"])
}

fn judged(document: &Value) -> Result<Listing, String> {
    check(document.to_string().as_bytes(), &allowed())
}

#[test]
fn the_text_replaces_the_table_and_names_each_family_that_is_needed() {
    let text = render(&set(&[]));
    assert!(text.starts_with("table inet ax_egress\ndelete table inet ax_egress\ntable inet ax_egress {\n"));
    assert!(!text.contains("allowed4") && !text.contains("allowed6") && !text.contains("nd-neighbor"));
    assert_eq!(text.matches("policy drop;").count(), 4);
    let both = render(&allowed());
    assert!(both.contains("elements = { 10.99.0.2 . 3128 }") && both.contains("elements = { fd00::2 . 80 }"));
}

#[test]
fn the_kernels_listing_is_accepted() {
    assert_eq!(judged(&listing()), Ok(Listing { refused: 8 }));
}

#[test]
fn a_newer_nft_shows_one_code_by_its_number() {
    let mut document = listing();
    find(&mut document, "rule", "comment", "path mtu 4")["expr"][1]["match"]["right"] = 4.into();
    assert!(judged(&document).is_ok());
}

#[test]
fn every_departure_is_noticed() {
    let objects = listing()["nftables"].as_array().unwrap().len();
    // Leaving out any one object but the header.
    for index in 1..objects {
        let mut document = listing();
        document["nftables"].as_array_mut().unwrap().remove(index);
        assert!(judged(&document).is_err(), "object {index} is not missed");
    }
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 10] = [
        ("dormant", |d| find(d, "table", "name", "ax_egress")["flags"] = "dormant".into()),
        ("policy", |d| find(d, "chain", "name", "output")["policy"] = "accept".into()),
        ("hook", |d| find(d, "chain", "name", "output")["hook"] = "input".into()),
        ("priority", |d| find(d, "chain", "name", "input")["prio"] = 0.into()),
        ("before NAT", |d| find(d, "chain", "name", "postrouting")["prio"] = (-310).into()),
        ("verdict", |d| find(d, "rule", "comment", "refuse")["expr"][1] = serde_json::json!({"accept": null})),
        ("match", |d| find(d, "rule", "comment", "loopback out")["expr"][0]["match"]["right"] = "eth0".into()),
        ("no match", |d| {
            find(d, "rule", "comment", "loopback out")["expr"].as_array_mut().unwrap().remove(0);
        }),
        ("element", |d| find(d, "set", "name", "allowed4")["elem"][0]["concat"][1] = 80.into()),
        ("range", |d| {
            find(d, "set", "name", "allowed4")["elem"][0]["concat"][0] =
                serde_json::json!({"prefix": {"addr": "0.0.0.0", "len": 0}});
        }),
    ];
    for (what, change) in changes {
        let mut document = listing();
        change(&mut document);
        assert!(judged(&document).is_err(), "{what} is not noticed");
    }
    let mut more = listing();
    more["nftables"].as_array_mut().unwrap().push(serde_json::json!(
        {"rule": {"family": "inet", "table": "ax_egress", "chain": "output", "expr": [{"accept": null}]}}
    ));
    assert!(judged(&more).is_err(), "an added rule is not noticed");
    for text in ["", "{}", "[]", "{\"nftables\": []}", "nonsense"] {
        assert!(check(text.as_bytes(), &allowed()).is_err(), "{text:?}");
    }
}

#[test]
fn other_tables_do_not_matter() {
    let mut document = listing();
    document["nftables"].as_array_mut().unwrap().push(serde_json::json!(
        {"chain": {"family": "ip", "table": "nat", "name": "output", "type": "nat", "hook": "output", "prio": -100, "policy": "accept"}}
    ));
    assert!(judged(&document).is_ok());
}

fn find<'a>(document: &'a mut Value, kind: &str, key: &str, value: &str) -> &'a mut Value {
    document["nftables"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .filter_map(|object| object.get_mut(kind))
        .find(|object| object[key] == value)
        .unwrap()
}
