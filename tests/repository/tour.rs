//! The links of `docs/tour.md` lead to the lines that declare what they name.
//!
//! `UPDATE_SNAPSHOTS=yes cargo test -p repository --test tour` writes the numbers of the lines.

use std::path::PathBuf;
use std::{env, fs};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the number of the line that declares an item, from 1.
fn line_of(source: &str, item: &str) -> Option<usize> {
    let declares = |line: &str| {
        let code = line.trim_start();
        ["fn", "struct", "const", "enum"].iter().any(|keyword| {
            let declared = code.split_once(&format!("{keyword} ")).map(|(_, declared)| declared);
            declared
                .and_then(|declared| declared.strip_prefix(item))
                .is_some_and(|rest| rest.starts_with(['(', '<', ' ', ':', ';', '\n']) || rest.is_empty())
                && !code.starts_with("//")
        })
    };
    source.lines().position(declares).map(|line| line + 1)
}

/// Returns the tour with the numbers of the lines as they are, and how many there are.
fn with_lines(tour: &str) -> (String, usize) {
    let (mut written, mut rest, mut links) = (String::new(), tour, 0);
    while let Some((before, after)) = rest.split_once("](../src/") {
        let (target, after) = after.split_once(')').expect("a link that ends");
        let name = before.rsplit('[').next().expect("a link that begins");
        let file = target.split('#').next().expect("a file");
        written += &format!("{before}](../src/{file}");
        if name.starts_with('`') && !name.ends_with(".rs`") {
            let source =
                fs::read_to_string(root().join("src").join(file)).unwrap_or_else(|error| panic!("src/{file}: {error}"));
            let item = name.trim_matches('`').rsplit("::").next().expect("a name");
            let line = line_of(&source, item).unwrap_or_else(|| panic!("src/{file} does not declare `{item}`"));
            written += &format!("#L{line}");
            links += 1;
        }
        written.push(')');
        rest = after;
    }
    (written + rest, links)
}

#[test]
fn the_tour_leads_to_the_lines() {
    let tour = fs::read_to_string(root().join("docs/tour.md")).unwrap();
    let (renewed, links) = with_lines(&tour);
    assert!(links > 20, "{links} links: too few to be all");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return fs::write(root().join("docs/tour.md"), renewed).unwrap();
    }
    let wrong: Vec<_> = tour.lines().zip(renewed.lines()).filter(|(is, should)| is != should).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\nUPDATE_SNAPSHOTS=yes cargo test -p repository --test tour writes the lines");
}

#[test]
fn a_line_is_the_one_of_the_declaration() {
    let source =
        "//! fn arm(\nstruct Entry {\n    /// fn cancel(\n    pub(crate) fn cancel(&self) {}\nfn cancelled() {}\n";
    let lines = ["Entry", "cancel", "cancelled", "arm"].map(|item| line_of(source, item));
    assert_eq!(lines, [Some(2), Some(4), Some(5), None]);
}
