//! Addresses: the paths that are served, and the link that opens them.

/// The public Firefox Profiler; `PROFILER_URL` selects another one for `profiler view`.
pub const VIEWER: &str = "https://profiler.firefox.com";

/// The profile's path below the token.
pub(super) const PROFILE: &str = "profile.json";
/// The path below the token for the viewer's requests for symbols.
pub(super) const SYMBOLICATE: &str = "symbolicate/v5";
/// The path below the token for the viewer's requests for source files.
pub(super) const SOURCE: &str = "source/v1";
/// The path below the token for the viewer's requests for assembly code.
pub(super) const ASSEMBLY: &str = "asm/v1";

/// The link that makes the viewer at `viewer` open the profile served below `base`, and request
/// symbols there.
pub fn viewer_link(viewer: &str, base: &str) -> String {
    let viewer = viewer.trim_end_matches('/');
    let profile = escape(&format!("{base}/{PROFILE}"));
    format!("{viewer}/from-url/{profile}/?symbolServer={}", escape(base))
}

/// The origin of the pages at an address, as a browser writes it: `https://host`, or with a port
/// that is not the usual one. `None` if it is not the address of a page.
pub(super) fn origin(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let usual_port = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, Some(digits).filter(|digits| !digits.is_empty()))
        }
        _ => (authority, None),
    };
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host_byte) {
        return None;
    }
    let port: u16 = port.map_or(Some(usual_port), |digits| digits.parse().ok())?;
    let host = host.to_ascii_lowercase();
    Some(if port == usual_port {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{port}")
    })
}

/// Percent-encodes everything except letters, digits and `-._~`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_an_address_is_written_as_browsers_write_it() {
        for (address, expected) in [
            (VIEWER, VIEWER),
            ("https://viewer.example/path?a#b", "https://viewer.example"),
            ("HTTPS://Viewer.Example:443", "https://viewer.example"),
            ("http://viewer.example:443/", "http://viewer.example:443"),
            ("http://localhost:4242/", "http://localhost:4242"),
            ("http://localhost:/", "http://localhost"),
            ("http://[::1]:80/", "http://[::1]"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(origin(address).as_deref(), Some(expected), "{address}");
        }
        for other in [
            "",
            "viewer.example",
            "file:///viewer",
            "https://",
            "https:///path",
            "https://user@viewer.example",
            "https://viewer.example:99999",
            "https://viewer example",
            "https://viewer.example\r\nx: y",
        ] {
            assert_eq!(origin(other), None, "{other}");
        }
    }

    #[test]
    fn the_viewer_finds_profile_and_symbols_in_the_link() {
        let link = "https://viewer.example/from-url/http%3A%2F%2F127.0.0.1%3A3%2Fab%2Fprofile.json/\
                    ?symbolServer=http%3A%2F%2F127.0.0.1%3A3%2Fab";
        assert_eq!(
            viewer_link("https://viewer.example/", "http://127.0.0.1:3/ab"),
            link
        );
        assert!(viewer_link(VIEWER, "x").starts_with("https://profiler.firefox.com/from-url/x%2F"));
    }
}
