//! The pages for those who change the crate link to symbols, not to lines: the symbol's file declares it.

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

/// A link to the source names a symbol if its name has a path or a capital letter, as in [`Core::close`].
#[test]
fn a_symbol_is_declared_in_the_file_that_its_link_names() {
    let internals = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals");
    let mut links = 0;
    for page in ["architecture.md", "protocols.md"] {
        let text = fs::read_to_string(internals.join(page)).unwrap();
        for (before, after) in text.match_indices("`](").map(|(at, _)| (&text[..at], &text[at + 3..])) {
            let name = before.rsplit('`').next().expect("a name");
            let file = after.split(')').next().expect("a link that ends");
            if !file.contains("/src/") || !name.contains(|c: char| c == ':' || c.is_uppercase()) {
                continue;
            }
            let source =
                fs::read_to_string(internals.join(file)).unwrap_or_else(|error| panic!("{page}: {file}: {error}"));
            let item = name.rsplit("::").next().expect("a name");
            assert!(declares(&source, item), "{page}: {file} does not declare `{item}`");
            links += 1;
        }
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
