//! Tests of the requests of the viewer for source files and assembly code, with a real program and
//! the real command.
//!
//! `profiler view` shows the sources and the code that the profile names, and nothing else on this
//! machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use integration_tests::http::Answer;
use integration_tests::own_process;
use object::{Object, ObjectSymbol};
use profiler_view::VIEWER;
use serde_json::{Value, json};

use crate::command_view::View;

/// `add` is inlined into `compute`, which calls `other`.
const SOURCE: &str = "\
__attribute__((noinline)) int other(int value) { return value * 7; }
static inline __attribute__((always_inline)) int add(int value) { return value + 3; }
__attribute__((noinline)) int compute(int value) {
    value = other(add(value));
    return value - 1;
}
int main(int count, char **arguments) { return compute(count) == arguments[0][0]; }
";
const BUILD_ID: &str = "0123456789abcdef0123456789abcdef01234567";
const DEBUG_ID: &str = "67452301AB89EFCD0123456789ABCDEF0";

/// A program in a directory of its own, with its source file.
struct Program {
    directory: tempfile::TempDir,
    path: PathBuf,
    source: PathBuf,
}

/// A function of the program.
struct Range {
    start: u64,
    size: u64,
}

impl Program {
    fn build() -> anyhow::Result<Self> {
        // The default name of a temporary directory is hidden.
        let directory = tempfile::Builder::new().prefix("program").tempdir()?;
        let program = Self {
            path: directory.path().join("program"),
            source: directory.path().join("program.c"),
            directory,
        };
        fs::write(&program.source, SOURCE)?;
        program.compile(BUILD_ID)?;
        Ok(program)
    }

    fn compile(&self, build_id: &str) -> anyhow::Result<()> {
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O1", &format!("-Wl,--build-id=0x{build_id}"), "-o"]);
        let status = cc.arg(&self.path).arg(&self.source).status()?;
        ensure!(status.success(), "cc: {status}");
        Ok(())
    }

    fn function(&self, name: &str) -> anyhow::Result<Range> {
        let bytes = fs::read(&self.path)?;
        let file = object::File::parse(bytes.as_slice())?;
        let symbol = file.symbol_by_name(name).context("no such function")?;
        Ok(Range {
            start: symbol.address(),
            size: symbol.size(),
        })
    }

    fn library(&self) -> Value {
        json!({
            "name": "program", "path": self.path, "debugName": "program", "debugPath": self.path,
            "breakpadId": DEBUG_ID, "codeId": BUILD_ID, "arch": "x86_64", "start": 4096, "end": 8192, "offset": 0,
        })
    }

    /// Serves a profile in the Gecko format that names the program.
    fn view(&self) -> anyhow::Result<View> {
        let profile = json!({"meta": {"version": 31, "interval": 1}, "libs": [self.library()], "threads": [], "processes": []});
        self.serve(&profile)
    }

    /// Serves a profile in the processed format that names the program and these source files.
    fn view_processed(&self, sources: &[&str]) -> anyhow::Result<View> {
        let rows: Vec<usize> = (0..sources.len()).collect();
        let shared = json!({
            "sources": {"length": rows.len(), "uuid": vec![Value::Null; rows.len()], "filename": rows},
            "stringArray": sources,
        });
        let meta = json!({"version": 31, "preprocessedProfileVersion": 57, "interval": 1});
        self.serve(
            &json!({"meta": meta, "libs": [self.library()], "shared": shared, "threads": []}),
        )
    }

    fn serve(&self, profile: &Value) -> anyhow::Result<View> {
        let file = self.directory.path().join("profile.json");
        fs::write(&file, profile.to_string())?;
        let home = self.directory.path().to_owned();
        View::start(&file, |command| {
            command.arg("--no-open").env("HOME", &home);
            command.env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
        })
    }
}

impl View {
    fn post(&self, path: &str, request: &str) -> anyhow::Result<Answer> {
        self.send(&format!(
            "POST /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nOrigin: https://profiler.example\r\n\
             Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {}\r\n\r\n{request}",
            request.len()
        ))
    }

    /// Sends a request as the viewer does, which only reads answers with status 200.
    fn query(&self, path: &str, request: &Value) -> anyhow::Result<Value> {
        let answer = self.post(path, &request.to_string())?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        let origin = answer.header("access-control-allow-origin");
        ensure!(
            origin == Some(VIEWER),
            "the page may not read it: {answer:?}"
        );
        Ok(serde_json::from_slice(&answer.body)?)
    }

    fn source(&self, address: u64, file: &str) -> anyhow::Result<Value> {
        let offset = format!("{address:#x}");
        self.query("source/v1", &json!({"debugName": "program", "debugId": DEBUG_ID, "moduleOffset": offset, "file": file}))
    }

    fn assembly(&self, range: &Range, continues: bool) -> anyhow::Result<Value> {
        let (start, size) = (format!("{:#x}", range.start), format!("{:#x}", range.size));
        self.query(
            "asm/v1",
            &json!({
                "debugName": "program", "debugId": DEBUG_ID, "name": "program", "codeId": BUILD_ID,
                "startAddress": start, "size": size, "continueUntilFunctionEnd": continues,
            }),
        )
    }
}

/// The offsets and the texts of the instructions in an answer.
fn instructions(answer: &Value) -> anyhow::Result<Vec<(u64, String)>> {
    Ok(serde_json::from_value(answer["instructions"].clone())?)
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or("no error")
}

#[test]
fn a_file_named_by_the_debug_information_at_an_address_is_shown() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let view = program.view()?;
    let compute = program.function("compute")?;
    let request = json!({"memoryMap": [["program", DEBUG_ID]], "stacks": [[[0, compute.start]]]});
    let named = view.query("symbolicate/v5", &json!({"jobs": [request]}))?;
    let file = named["results"][0]["stacks"][0][0]["file"]
        .as_str()
        .context("no file")?;
    assert_eq!(Path::new(file), program.source);
    let answer = view.source(compute.start, file)?;
    assert_eq!(
        (&answer["source"], &answer["file"]),
        (&json!(SOURCE), &json!(file))
    );
    fs::remove_file(&program.source)?;
    assert!(error(&view.source(compute.start, file)?).ends_with("is not on this machine"));
    Ok(())
}

#[test]
fn assembly_code_covers_the_function_and_names_the_functions_that_it_calls() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let view = program.view()?;
    let compute = program.function("compute")?;
    let answer = view.assembly(&compute, false)?;
    assert_eq!(
        answer["startAddress"],
        json!(format!("{:#x}", compute.start))
    );
    assert_eq!(answer["size"], json!(format!("{:#x}", compute.size)));
    let all = instructions(&answer)?;
    let last = all.last().context("no instructions")?;
    assert!(
        all[0].0 == 0 && last.0 < compute.size && last.1.starts_with("ret"),
        "{all:?}"
    );
    let call = all.iter().find(|(_, text)| text.contains("<other>"));
    assert!(
        call.is_some_and(|(_, text)| text.starts_with("call 0x") || text.starts_with("bl ")),
        "{all:?}"
    );
    let part = Range { size: 1, ..compute };
    assert_eq!(instructions(&view.assembly(&part, false)?)?.len(), 1);
    assert_eq!(instructions(&view.assembly(&part, true)?)?, all);
    Ok(())
}

#[test]
fn code_of_another_build_is_not_shown_but_sources_that_the_profile_names_are() -> anyhow::Result<()>
{
    own_process!();
    let program = Program::build()?;
    let compute = program.function("compute")?;
    let source = program.source.to_string_lossy().into_owned();
    program.compile(&BUILD_ID.replace('0', "f"))?;
    let gecko = program.view()?;
    assert!(error(&gecko.assembly(&compute, true)?).contains("it was replaced"));
    let said = gecko.source(compute.start, &source)?;
    assert!(
        error(&said).starts_with("neither the profile nor"),
        "{said}"
    );
    let registry = "cargo:a.registry-01:package-1.0.0:src/lib.rs";
    let package = program
        .directory
        .path()
        .join(".cargo/registry/src/a.registry-01/package-1.0.0/src");
    fs::create_dir_all(&package)?;
    fs::write(package.join("lib.rs"), "// a package")?;
    let processed = program.view_processed(&["a name", &source, registry])?;
    assert_eq!(
        processed.source(compute.start, &source)?["source"],
        json!(SOURCE)
    );
    assert_eq!(
        processed.source(compute.start, registry)?["source"],
        json!("// a package")
    );
    assert!(error(&processed.assembly(&compute, true)?).contains("it was replaced"));
    Ok(())
}

#[test]
fn files_and_libraries_that_the_profile_does_not_name_are_not_read() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let compute = program.function("compute")?;
    let secret = program.directory.path().join("secret.txt");
    fs::write(&secret, "a secret")?;
    let secret = secret.to_string_lossy().into_owned();
    let source = program.source.to_string_lossy().into_owned();
    let traversal = format!("{source}/../secret.txt");
    for view in [program.view()?, program.view_processed(&[&source])?] {
        for file in [
            &secret,
            &traversal,
            "/etc/passwd",
            "secret.txt",
            "",
            "file:///etc/passwd",
            "cargo:..:a-1.0.0:secret.txt",
        ] {
            let answer = view.source(compute.start, file)?;
            assert!(
                error(&answer).starts_with("neither the profile nor"),
                "{file}: {answer}"
            );
        }
        let other = json!({"debugName": "libc.so.6", "debugId": DEBUG_ID, "moduleOffset": "0x1", "file": source});
        assert!(error(&view.query("source/v1", &other)?).starts_with("the profile has no library"));
        let other =
            json!({"debugName": "program", "debugId": "0", "startAddress": "0x0", "size": "0x1"});
        assert!(error(&view.query("asm/v1", &other)?).starts_with("the profile has no library"));
    }
    Ok(())
}

#[test]
fn a_named_file_that_is_no_text_of_moderate_size_is_not_shown() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let compute = program.function("compute")?;
    let below = |name: &str| {
        program
            .directory
            .path()
            .join(name)
            .to_string_lossy()
            .into_owned()
    };
    fs::create_dir(below("directory.c"))?;
    fs::copy(&program.path, below("binary.c"))?;
    let large = fs::File::create(below("large.c"))?;
    large.set_len(1 << 30)?;
    integration_tests::pairs::make_pipe(Path::new(&below("pipe.c")))?;
    let files = [
        below("large.c"),
        below("pipe.c"),
        below("binary.c"),
        below("directory.c"),
        "src/main.rs".into(),
    ];
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let view = program.view_processed(&names)?;
    let expected = [
        "bytes, more than",
        "is not a regular file",
        "is not a text file",
        "is not a regular file",
        "does not begin at the root",
    ];
    for (file, expected) in files.iter().zip(expected) {
        let answer = view.source(compute.start, file)?;
        assert!(error(&answer).contains(expected), "{file}: {answer}");
    }
    Ok(())
}

#[test]
fn a_profile_alone_cannot_name_a_file_that_is_no_source_file() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let compute = program.function("compute")?;
    let secret = |name: &str| -> anyhow::Result<String> {
        let path = program.directory.path().join(name);
        fs::create_dir_all(path.parent().context("no directory")?)?;
        fs::write(&path, "a secret")?;
        Ok(path.to_string_lossy().into_owned())
    };
    let source = program.source.to_string_lossy().into_owned();
    let files = [
        (secret(".ssh/id_rsa")?, "hidden"),
        (secret(".ssh/key.c")?, "hidden"),
        (secret("notes.txt")?, "extension"),
        (secret(".cargo/credentials.toml")?, "extension"),
        ("/proc/self/environ".into(), "extension"),
    ];
    let named = files.iter().map(|(file, _)| file.as_str());
    let names: Vec<&str> = named.chain([source.as_str()]).collect();
    let view = program.view_processed(&names)?;
    for (file, reason) in &files {
        let answer = view.source(compute.start, file)?;
        let said = error(&answer);
        ensure!(
            said.starts_with("only the profile names"),
            "{file}: {answer}"
        );
        ensure!(said.contains(reason), "{file}: {answer}");
    }
    assert_eq!(view.source(0, &source)?["source"], json!(SOURCE));
    Ok(())
}

#[test]
fn code_requests_of_any_size_get_a_bounded_answer() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let view = program.view()?;
    let Range { start, .. } = program.function("compute")?;
    let answer = view.assembly(
        &Range {
            start,
            size: u64::MAX,
        },
        true,
    )?;
    let last = instructions(&answer)?.last().context("nothing")?.0;
    assert!(
        last < fs::metadata(&program.path)?.len(),
        "only code of the file is shown: {last}"
    );
    for start in [1 << 40, u64::MAX] {
        let answer = view.assembly(&Range { start, size: 64 }, true)?;
        assert!(
            error(&answer).contains("has no code at address"),
            "{answer}"
        );
    }
    Ok(())
}

#[test]
fn malformed_and_foreign_requests_are_refused() -> anyhow::Result<()> {
    own_process!();
    let program = Program::build()?;
    let view = program.view()?;
    for path in ["source/v1", "asm/v1"] {
        let number = |number: &str| json!({"debugName": "program", "debugId": DEBUG_ID, "file": "a", "moduleOffset": number, "startAddress": number, "size": number});
        for request in [
            "",
            "{}",
            "[]",
            "null",
            &"[".repeat(60_000),
            &number("12").to_string(),
            &number("0x").to_string(),
            &number("0x-1").to_string(),
            &number("0x11112222333344445").to_string(),
        ] {
            assert_eq!(
                view.post(path, request)?.status,
                400,
                "{path}: {request:.99}"
            );
        }
        let large = (64 << 10) + 1;
        let large =
            format!("POST /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nContent-Length: {large}\r\n\r\n");
        assert_eq!(view.send(&large)?.status, 413);
        assert_eq!(view.ask(&format!("GET /TOKEN/{path}"))?.status, 405);
        let preflight = view.send(&format!(
            "OPTIONS /TOKEN/{path} HTTP/1.1\r\nHost: HOST\r\nOrigin: https://profiler.example\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n\r\n"
        ))?;
        assert_eq!(preflight.status, 204);
        assert_eq!(
            preflight.header("access-control-allow-private-network"),
            Some("true")
        );
        let rebound = view.send(&format!(
            "POST /TOKEN/{path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{{}}"
        ))?;
        assert_eq!((rebound.status, rebound.body.len()), (403, 0));
        let wrong = "0".repeat(view.token.len());
        let stranger = view.send(&format!(
            "POST /{wrong}/{path} HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{{}}"
        ))?;
        assert_eq!(
            (
                stranger.status,
                stranger.header("access-control-allow-origin")
            ),
            (404, None)
        );
    }
    Ok(())
}
