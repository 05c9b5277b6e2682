//! The links of `docs/tour.md` name what their files declare.

use std::fs;
use std::path::PathBuf;

/// Returns whether a line declares an item.
fn declares(source: &str, item: &str) -> bool {
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
    source.lines().any(declares)
}

#[test]
fn the_tour_names_what_the_files_declare() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tour = fs::read_to_string(root.join("docs/tour.md")).unwrap();
    let (mut rest, mut links) = (&*tour, 0);
    while let Some((before, after)) = rest.split_once("](../src/") {
        let (file, after) = after.split_once(')').expect("a link that ends");
        let name = before.rsplit('[').next().expect("a link that begins");
        if name.starts_with('`') && !name.ends_with(".rs`") {
            let source =
                fs::read_to_string(root.join("src").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let item = name.trim_matches('`').rsplit("::").next().expect("a name");
            assert!(declares(&source, item), "src/{file} does not declare `{item}`");
            links += 1;
        }
        rest = after;
    }
    assert!(links > 20, "{links} links: too few to be all");
}

#[test]
fn an_item_is_declared_not_mentioned() {
    let source =
        "//! fn arm(\nstruct Entry {\n    /// fn cancel(\n    pub(crate) fn cancel(&self) {}\nfn cancelled() {}\n";
    assert!(["Entry", "cancel", "cancelled"].iter().all(|item| declares(source, item)));
    assert!(!declares(source, "arm") && !declares("/// fn cancel(\nfn cancelled() {}\n", "cancel"));
}
