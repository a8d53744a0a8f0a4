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
