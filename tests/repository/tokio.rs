//! tokio's own tests and examples pass on `corewheel::time` with only the path changed, if they do not pause the time.
//!
//! They come from the copy of tokio that cargo has unpacked. The repository stores nothing of them.

#[allow(dead_code, reason = "the pages are for other tests")]
mod pages;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde_json::Value;

/// So many apply to the version of tokio in `Cargo.lock`.
const TESTS: usize = 73;
const EXAMPLES: usize = 41;

const PAUSES: &[&str] = &["start_paused", "pause()", "resume()", "advance("];

/// What else the table of `docs/embedding/tokio.md` declares different, or cannot run here. An empty name means the file.
const LEFT_OUT: &[(&str, &[(&str, &str)])] = &[
    (
        "must panic without a runtime or its timers",
        &[
            ("tests/no_rt.rs", "timeout_panics_when_no_tokio_context"),
            ("tests/rt_basic.rs", "timeout_panics_when_no_time_handle"),
            ("tests/time_panic.rs", "timeout_panic_caller"),
            ("tests/time_panic.rs", "timeout_at_panic_caller"),
            ("tests/time_sleep.rs", "creating_sleep_outside_of_context"),
        ],
    ),
    (
        "must end with its runtime",
        &[
            ("tests/rt_handle_block_on.rs", "sleep_before_shutdown_panics"),
            ("tests/rt_handle_block_on.rs", "sleep_after_shutdown_panics"),
            ("tests/time_alt.rs", "reset_should_stay_on_same_runtime"),
            ("tests/time_alt.rs", "reset_should_stay_on_same_runtime2"),
        ],
    ),
    (
        "must park its runtime even for a sleep that is over",
        &[("tests/rt_metrics.rs", "worker_park_count"), ("tests/rt_unstable_metrics.rs", "worker_noop_count")],
    ),
    ("needs strace, and may leave it running", &[("tests/process_issue_7144.rs", "issue_7144")]),
    ("needs Windows", &[("src/net/windows/named_pipe.rs", "")]),
    ("needs tokio's feature `taskdump`", &[("src/runtime/handle.rs", "")]),
];

/// Tests look at the features of the package that they are in.
const MANIFEST: &str = r#"
[workspace]

[package]
name = "tokio-time"
version = "0.0.0"
edition = "2021"

[dev-dependencies]
corewheel = { path = "ROOT" }
futures = "0.3"
futures-test = "0.3"
libc = "0.2"
nix = { version = "0.31", features = ["fs", "socket"] }
pin-project-lite = "0.2"
rand = "0.9"
socket2 = "0.6"
tempfile = "3"
tokio = { version = "=VERSION", features = ["full", "test-util"] }
tokio-stream = "0.1"
tokio-test = "0.4"

[features]
"#;

/// A test or an example that uses the time.
struct Case {
    file: String,
    name: String,
    left_out: Option<&'static str>,
}

impl Case {
    fn new(file: &str, name: &str, pauses: bool) -> Self {
        let is = |&(of, test): &(&str, &str)| of == file && (test == name || test.is_empty());
        let by_name = LEFT_OUT.iter().find(|(_, cases)| cases.iter().any(is)).map(|(why, _)| *why);
        Self { file: file.to_owned(), name: name.to_owned(), left_out: by_name.or(pauses.then_some("pauses the time")) }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the tokio that the workspace depends on, as cargo describes it.
fn tokio() -> Value {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().find(|package| package["name"] == "tokio").expect("tokio is a dependency").clone()
}

fn manifest(tokio: &Value) -> String {
    let version = tokio["version"].as_str().expect("a version");
    let full = tokio["features"]["full"].as_array().expect("features").iter().filter_map(Value::as_str);
    let features: Vec<_> = full.chain(["full", "test-util"]).collect();
    let mut manifest = MANIFEST.replace("VERSION", version).replace("ROOT", &root().display().to_string());
    manifest += &format!("default = {features:?}\n");
    features.iter().for_each(|feature| manifest += &format!("{feature} = []\n"));
    manifest
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns whether a text has one of these in its code.
fn pauses_by(text: &str, pauses: &[&str]) -> bool {
    let code = without_comments(text);
    pauses.iter().any(|word| code.contains(word))
}

fn without_comments(text: &str) -> String {
    text.lines().flat_map(|line| [line.split("//").next().expect("a line"), "\n"]).collect()
}

/// Changes what a user changes: the path.
fn switch(text: &str) -> String {
    let switched = |line: &str| match line.strip_suffix(", time};") {
        Some(others) if line.starts_with("use tokio::{") => format!("{others}}}; use corewheel::time;\n"),
        _ => line.replace("tokio::time::", "corewheel::time::").replace("tokio::time;", "corewheel::time;") + "\n",
    };
    text.lines().map(switched).collect()
}

/// Returns the names that a text has from `corewheel::time`. The duration is the one of `std` in any case.
fn names(text: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (at, path) in text.match_indices("corewheel::time") {
        match text[at + path.len()..].strip_prefix("::") {
            Some(list) if list.starts_with('{') => names.extend(words(list.split('}').next().expect("a list"))),
            Some(all) if all.starts_with('*') => names.extend(["sleep", "sleep_until", "timeout", "Instant"]),
            Some(name) => names.extend(words(name).next()),
            None => _ = names.insert("time"),
        }
    }
    if names.remove("self") {
        names.insert("time");
    }
    names.retain(|name| !["Duration", "error"].contains(name));
    names
}

/// Returns whether a part of a text names the time, apart from what `std` has.
fn uses(part: &str, names: &BTreeSet<&str>) -> bool {
    let part = without_comments(part).replace("std::time", "").replace("thread::sleep", "");
    words(&part).any(|word| names.contains(word))
}

/// Returns the lines of each block that begins so, to the brace that is indented as its beginning.
fn blocks(lines: &[&str], begins: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if begins(code) && blocks.last().is_none_or(|last: &Range<usize>| last.end <= at) {
            let end = format!("{}}}", &line[..line.len() - code.len()]);
            blocks.push(at..at + lines[at..].iter().position(|line| *line == end).unwrap_or(0) + 1);
        }
    }
    blocks
}

fn function(block: &str) -> &str {
    block.split("fn ").nth(1).and_then(|rest| words(rest).next()).expect("a function's name")
}

/// Returns the tests of a file that use the time, and the text of the file without all others that it has.
fn tests(file: &str, text: &str) -> (Vec<Case>, String) {
    let lines: Vec<&str> = text.lines().collect();
    let is_test = |code: &str| code.starts_with("#[") && (code.contains("tokio::test") || code.ends_with("test]"));
    let is_function = |code: &str| ["fn ", "async fn ", "pub fn "].iter().any(|start| code.starts_with(start));
    let tests = blocks(&lines, is_test);
    // What a function uses, the tests that call it use, too.
    let mut names = names(text);
    let mut pauses = PAUSES.to_vec();
    let own = names.clone();
    for block in blocks(&lines, is_function) {
        let attributes = lines[..block.start].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
        let code = lines[block.start - attributes.count()..block.end].join("\n");
        if uses(&code, &own) && !tests.iter().any(|test| test.contains(&block.start)) {
            let name = function(lines[block.start]);
            names.insert(name);
            if pauses_by(&code, PAUSES) {
                pauses.push(name);
            }
        }
    }
    let mut cases = Vec::new();
    let mut left_out = BTreeSet::new();
    for block in tests {
        let code = lines[block.clone()].join("\n");
        let case = uses(&code, &names).then(|| Case::new(file, function(&code), pauses_by(&code, &pauses)));
        if case.as_ref().is_none_or(|case| case.left_out.is_some()) {
            left_out.insert(block.start);
        }
        cases.extend(case);
    }
    let with =
        |(at, line): (usize, &&str)| [if left_out.contains(&at) { "#[cfg(any())] " } else { "" }, line, "\n"].concat();
    (cases, lines.iter().enumerate().map(with).collect())
}

/// Returns the examples in the documentation of a file that name the time, each with its text.
fn examples(file: &str, text: &str) -> Vec<(Case, String)> {
    let doc = |line: &str| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default();
        format!("{}\n", doc.strip_prefix(' ').unwrap_or(doc))
    };
    let docs: String = text.lines().map(doc).collect();
    let mut block = None;
    let mut examples = Vec::new();
    for event in Parser::new(&docs) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => block = Some((info, String::new())),
            Event::Text(part) => {
                if let Some((_, code)) = &mut block {
                    code.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((info, code)) = block.take() else { continue };
                let is_program = words(&info).all(|word| ["rust", "no_run", "should_panic"].contains(&word));
                if is_program && uses(&code, &names(&code)) {
                    let name = format!("example {}", examples.len() + 1);
                    let case = Case::new(file, &name, pauses_by(&code, PAUSES));
                    examples.push((case, format!("```{info}\n{code}```\n")));
                }
            }
            _ => {}
        }
    }
    examples
}

/// Runs `cargo test` in a package. Returns the names of the tests that passed, and whether none failed.
fn run(package: &Path, what: &str) -> (Vec<String>, bool) {
    let output = Command::new(env!("CARGO"))
        .args(["test", what, "--quiet", "--no-fail-fast", "--target-dir"])
        .arg(root().join("target/tokio-time-build"))
        .args(["--", "--format", "pretty"])
        // Some of tokio's tests are of what is not stable. Nothing here warns of what they leave unused.
        .env("RUSTFLAGS", "--cfg tokio_unstable --cap-lints allow")
        .current_dir(package)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let passed = |line: &str| {
        let test = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
        Some(test.trim_end_matches(" - should panic").to_owned())
    };
    (text.lines().filter_map(passed).collect(), output.status.success())
}

#[test]
#[ignore = "builds and runs tokio's tests"]
fn tokios_tests_and_examples_pass_with_only_the_path_changed() {
    let tokio = tokio();
    let source = Path::new(tokio["manifest_path"].as_str().expect("a path")).with_file_name("");
    let package = root().join("target/tokio-time");
    if package.exists() {
        fs::remove_dir_all(&package).expect("the package of the last run goes");
    }
    let write = |path: &str, text: &str| {
        let path = package.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    let read = |folder: &str| {
        let mut paths = pages::files(&source.join(folder), "rs");
        paths.sort();
        let file = |path: PathBuf| {
            let name = path.strip_prefix(&source).expect("a file of tokio").display().to_string();
            (name, switch(&fs::read_to_string(&path).expect("a file of tokio")))
        };
        paths.into_iter().map(file).collect::<Vec<_>>()
    };

    let mut cases = Vec::new();
    let mut library = String::new();
    for (file, text) in read("tests") {
        let (of_file, kept) = tests(&file, &text);
        if file.starts_with("tests/support/") || of_file.iter().any(|case| case.left_out.is_none()) {
            write(&file, &kept);
        }
        if of_file.is_empty() && !names(&text).is_empty() {
            println!("left out: {file}: uses the time in no function with an attribute of a test");
        }
        cases.extend(of_file);
    }
    for (file, text) in read("src") {
        for (case, text) in examples(&file, &text) {
            if case.left_out.is_none() {
                let number = cases.len();
                write(&format!("src/{number}.md"), &text);
                library += &format!("#[doc = include_str!(\"{number}.md\")]\nmod example_{number} {{}}\n");
            }
            cases.push(case);
        }
    }
    write("src/lib.rs", &library);
    write("Cargo.toml", &manifest(&tokio));
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).expect("a copy");

    let (passed, tests_pass) = run(&package, "--tests");
    let (examples, examples_pass) = run(&package, "--doc");
    // A test may run several times, each in a module of its own.
    let passed: BTreeSet<_> = passed.iter().filter_map(|test| test.rsplit("::").next()).collect();
    let (mut tests, mut left_out) = (0, 0);
    for Case { file, name, left_out: why } in &cases {
        let is_test = file.starts_with("tests/");
        let not_built = (is_test && !passed.contains(&**name)).then_some("needs another system or more features");
        if let Some(why) = why.or(not_built) {
            println!("left out: {file}, {name}: {why}");
            left_out += 1;
        } else if is_test {
            tests += 1;
        }
    }
    let examples = examples.len();
    println!(
        "tokio {}: {tests} tests and {examples} examples passed, {left_out} were left out",
        tokio["version"].as_str().unwrap_or_default()
    );
    assert!(tests_pass && examples_pass, "some failed");
    assert!(tests >= TESTS && examples >= EXAMPLES, "{TESTS} tests and {EXAMPLES} examples are known to apply");
}
