//! A page that redirects the browser to a secret link.
//!
//! Used by `profiler view`. Every user of the machine can read the arguments of a process, so the
//! link is not an argument of the program that opens the browser: the argument is the path of this
//! page. Invariant: only this user can read the page, and it exists as long as its
//! [`RedirectPage`].

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

/// The page in a file of a private directory. Dropping it removes both.
#[derive(Debug)]
pub(crate) struct RedirectPage {
    path: PathBuf,
    _directory: TempDir,
}

impl RedirectPage {
    /// Writes a page that opens `link`.
    pub(crate) fn create(link: &str) -> io::Result<Self> {
        let directory = private_directory()?;
        // The file has mode 0600.
        let mut page = Builder::new()
            .prefix("open-")
            .suffix(".html")
            .tempfile_in(directory.path())?;
        page.write_all(html(link).as_bytes())?;
        let (_, path) = page.keep().map_err(|error| error.error)?;
        Ok(Self {
            path,
            _directory: directory,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn private_directory() -> io::Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix("profiler-view-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

fn html(link: &str) -> String {
    let link = escape(link);
    format!(
        r#"<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Firefox Profiler</title>
<p><a href="{link}">Open the profile</a></p>
"#
    )
}

/// Replaces the characters that end or begin something in HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_cannot_contain_other_html() {
        let page = html(r#"http://localhost/?a=1&b="><script>"#);
        let link = "http://localhost/?a=1&amp;b=&quot;&gt;&lt;script&gt;";
        assert_eq!(page.matches(link).count(), 2, "{page}");
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn the_page_is_removed_with_its_directory() {
        let page = RedirectPage::create("http://localhost/").unwrap();
        let directory = page.path().parent().unwrap().to_owned();
        assert!(page.path().exists());
        drop(page);
        assert!(!directory.exists());
    }
}
