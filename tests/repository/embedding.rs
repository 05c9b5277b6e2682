//! Each program of docs/embedding compiles with exactly the dependencies that its page lists before it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A program, and the lines of its manifest that the page gives.
struct Program {
    name: String,
    dependencies: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the programs of a page. A program that the page tells to ignore is left out.
fn programs(path: &Path) -> Vec<Program> {
    let page = path.file_stem().expect("a page's name").to_string_lossy();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut language, mut code, mut dependencies, mut programs) = (None, String::new(), None, Vec::new());
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => language = Some(info),
            Event::Text(part) if language.is_some() => code.push_str(&part),
            Event::End(TagEnd::CodeBlock) => {
                let code = std::mem::take(&mut code);
                match language.take().as_deref() {
                    Some("toml") if code.starts_with("[dependencies]") => dependencies = Some(code),
                    Some("rust") => programs.push(Program {
                        name: format!("{page}-{}", programs.len() + 1),
                        dependencies: dependencies.clone().unwrap_or_else(|| panic!("{page} has no [dependencies]")),
                        text: code,
                    }),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    programs
}

/// Writes a workspace of these programs, where the crate is the one of this repository.
fn write(workspace: &Path, programs: &[Program]) {
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n".to_owned();
    writeln!(manifest, "[patch.crates-io]\ncorewheel = {{ path = {:?} }}", root()).expect("memory");
    for Program { name, dependencies, text } in programs {
        let package = workspace.join(name);
        fs::create_dir_all(package.join("src")).expect("a directory");
        let head = format!("[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n");
        fs::write(package.join("Cargo.toml"), head + dependencies).expect("a manifest");
        fs::write(package.join("src/main.rs"), text).expect("a program");
    }
    fs::write(workspace.join("Cargo.toml"), manifest).expect("a manifest");
    // The versions that the other tests use.
    fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock")).expect("a copy");
}

/// Writes the workspace of all programs. Returns its folder, and their names.
fn prepare() -> (PathBuf, Vec<String>) {
    let workspace = root().join("target/embedding");
    if workspace.exists() {
        fs::remove_dir_all(&workspace).expect("the workspace of the last run goes");
    }
    let pages = fs::read_dir(root().join("docs/embedding")).expect("the pages");
    let mut pages: Vec<_> = pages.map(|page| page.expect("a page").path()).collect();
    pages.sort();
    let programs: Vec<_> = pages.iter().flat_map(|page| programs(page)).collect();
    assert!(programs.len() > pages.len(), "{} programs", programs.len());
    write(&workspace, &programs);
    (workspace, programs.into_iter().map(|program| program.name).collect())
}

/// Returns whether the packages that `selection` names compile.
fn compile(workspace: &Path, selection: &[&str], target: &str) -> bool {
    let check = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--target-dir"])
        .arg(root().join(target))
        .args(selection)
        .current_dir(workspace)
        .status();
    check.expect("cargo starts").success()
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "compiles many libraries"]
fn all_programs_compile_together() {
    let (workspace, _) = prepare();
    assert!(compile(&workspace, &["--workspace"], "target"));
}

/// Together, each would get the features of all.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "compiles many libraries, some more than once"]
fn each_program_compiles_with_the_dependencies_of_its_page() {
    let (workspace, names) = prepare();
    let compiles = |name: &&String| compile(&workspace, &["--package", name], "target/embedding-build");
    let failed: Vec<_> = names.iter().filter(|name| !compiles(name)).collect();
    assert!(failed.is_empty(), "do not compile: {failed:?}");
}
