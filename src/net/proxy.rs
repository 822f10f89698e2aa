//! Which proxy the children use, and what goes past it (PROTOCOL §11.1).

/// Names that are reached without the proxy.
///
/// Measured against servers on `localhost`, `127.0.0.1` and `[::1]`. Direct to all three: curl 7.88, wget 1.21, git 2.47,
/// requests 2.34, httpx 0.24 to 0.28, aiohttp 3.14, pip 21.3 to 26.0, axios 1, Go 1.19, Ruby 3.1 and Node's fetch before 24, which
/// knows no proxy. To the first two only: urllib, httpx 0.23 and undici, which look for `[::1]` with its brackets. That
/// spelling, and `::1/128`, are not here since httpx then fails for *every* address. The network in CIDR form adds the rest of
/// 127/8 in curl, git, requests and Go, and is passed over by the others. `0.0.0.0` is what a server prints that listens
/// everywhere; none of the clients named stumbles over it.
pub const NO_PROXY: &str = "localhost,127.0.0.1,127.0.0.0/8,::1,0.0.0.0";

/// Chooses in the order of PROTOCOL §11.1: the bridge, `AX_WEB_PROXY_URL` (which the payload's `webProxyUrl` only
/// fills when it is unset), `AX_PROXY_LISTEN_PORT`. Also returns what was wrong with the values passed over; the texts hold
/// none of them.
pub fn choose(
    bridge: Option<&str>,
    environment_url: Option<&str>,
    payload_url: Option<&str>,
    listen_port: Option<&str>,
) -> (Option<String>, Vec<&'static str>) {
    let mut warnings = Vec::new();
    if let Some(url) = bridge {
        return (Some(url.to_owned()), warnings);
    }
    let set = |value: Option<&str>| value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned);
    if let Some(url) = set(environment_url).or_else(|| set(payload_url)) {
        match clean(&url, &mut warnings) {
            Some(url) => return (Some(url), warnings),
            None => warnings.push("the web proxy's URL is not http://host:port, so it is not used"),
        }
    }
    if let Some(port) = set(listen_port) {
        match port.parse::<u16>() {
            Ok(port) if port != 0 => return (Some(format!("http://127.0.0.1:{port}")), warnings),
            _ => warnings.push("AX_PROXY_LISTEN_PORT is not a port, so it is not used"),
        }
    }
    (None, warnings)
}

/// The URL with a scheme clients take, without what must not reach a child's environment.
fn clean(url: &str, warnings: &mut Vec<&'static str>) -> Option<String> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => {
            warnings.push("the web proxy's URL holds a user name or password, which commands are not given");
            host
        }
        None => authority,
    };
    (!host.is_empty()).then(|| format!("{}://{host}", scheme.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(bridge: Option<&str>, env: Option<&str>, payload: Option<&str>, port: Option<&str>) -> Option<String> {
        choose(bridge, env, payload, port).0
    }

    #[test]
    fn the_order_is_the_hosts() {
        let all = (Some("http://127.0.0.1:9"), Some("http://e:1"), Some("http://p:2"), Some("3"));
        assert_eq!(url(all.0, all.1, all.2, all.3).as_deref(), Some("http://127.0.0.1:9"));
        assert_eq!(url(None, all.1, all.2, all.3).as_deref(), Some("http://e:1"));
        assert_eq!(url(None, Some(" "), all.2, all.3).as_deref(), Some("http://p:2"));
        assert_eq!(url(None, None, None, all.3).as_deref(), Some("http://127.0.0.1:3"));
        assert_eq!(url(None, None, None, None), None);
    }

    #[test]
    fn a_useless_value_is_passed_over_and_told() {
        for bad in
            ["proxy:3128", "socks5://p:1", "http://", "http://@", "http://a b", "http://p:1\nX: y", "http://\u{e9}"]
        {
            let (url, warnings) = choose(None, Some(bad), None, Some("8"));
            assert_eq!(url.as_deref(), Some("http://127.0.0.1:8"), "{bad:?}");
            assert!(!warnings.is_empty(), "{bad:?}");
        }
        for bad in ["0", "65536", "-1", "x"] {
            assert_eq!(url(None, None, None, Some(bad)), None);
        }
    }

    #[test]
    fn user_names_and_passwords_do_not_pass() {
        for (given, wanted) in [
            ("http://u:hunter2@proxy:3128", "http://proxy:3128"),
            ("HTTP://u:p@ss@proxy:3128/x", "http://proxy:3128"),
            ("http://proxy:3128/?t=hunter2", "http://proxy:3128"),
            ("http://[::1]:3128/", "http://[::1]:3128"),
        ] {
            let (url, warnings) = choose(None, Some(given), None, None);
            assert_eq!(url.as_deref(), Some(wanted));
            assert!(!format!("{warnings:?}").contains("hunter2"));
        }
    }
}
