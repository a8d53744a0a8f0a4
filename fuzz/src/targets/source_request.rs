//! Fuzzes the requests for source files and assembly code, for a profile that names one source file
//! and one library: no request returns the text of another file, and every answer is JSON.
//!
//! `FILE` in the input stands for the path of the named file, `SECRET` for that of a file that the
//! profile does not name, in the same directory.

use std::fs::File;
use std::path::PathBuf;

use profiler_symbols::SymbolOptions;
use profiler_view::{SymbolicationApi, symbols_of_this_machine};
use serde_json::{Value, json};

const SECRET: &str = "the text of a file that the profile does not name";

struct Served {
    directory: tempfile::TempDir,
    profile: File,
    api: Box<dyn SymbolicationApi>,
}

impl Served {
    fn new() -> Self {
        // The default name of a temporary directory is hidden; such files are not shown.
        let directory = tempfile::Builder::new()
            .prefix("named")
            .tempdir()
            .expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("named.c"), "int main;").expect("a file");
        std::fs::write(path("secret.c"), SECRET).expect("a file");
        let library = json!({"name": "lib", "path": path("lib.so"), "debugName": "lib", "breakpadId": "AB0", "codeId": "ab"});
        let shared = json!({"sources": {"filename": [0]}, "stringArray": [path("named.c")]});
        let profile = json!({"meta": {}, "libs": [library], "shared": shared, "threads": []});
        std::fs::write(path("profile.json"), profile.to_string()).expect("a file");
        Self {
            profile: File::open(path("profile.json")).expect("the file"),
            api: symbols_of_this_machine(SymbolOptions::default()),
            directory,
        }
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        path.to_string_lossy().into_owned()
    }

    fn check(&self, text: &str) {
        let request = text
            .replace("FILE", &self.path("named.c"))
            .replace("SECRET", &self.path("secret.c"));
        let source = self.api.source(&self.profile, &request);
        let assembly = self.api.assembly(&self.profile, &request);
        for answer in [source, assembly].into_iter().flatten() {
            assert!(!answer.contains(SECRET), "{request}");
            assert!(serde_json::from_str::<Value>(&answer).is_ok(), "{answer}");
        }
    }
}

thread_local! {
    static SERVED: Served = Served::new();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    // An answer may repeat a name from the request.
    if let Ok(text) = std::str::from_utf8(data)
        && !text.contains(SECRET)
    {
        SERVED.with(|served| served.check(text));
    }
}
