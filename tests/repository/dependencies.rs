//! What comes with this crate can be used by whoever can use this crate.

use std::collections::BTreeSet;
use std::process::Command;

use spdx::{Expression, ParseMode};

const LICENCES: [&str; 8] =
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"];

/// The names and the licences of this and all other packages that are built on this platform.
fn packages() -> BTreeSet<(String, String)> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--workspace", "--all-features", "--edges", "all"])
        .args(["--prefix", "none", "--format", "{p}\t{l}\t"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).expect("text");
    let columns = lines.lines().map(|line| line.split('\t').map(String::from));
    columns.filter_map(|mut columns| Some((columns.next()?, columns.next()?))).collect()
}

#[test]
fn licences_are_among_those_that_ask_for_no_more_than_ours() {
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for (package, licence) in packages {
        let expression = Expression::parse_mode(&licence, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{package} has no licence that is known: {error}"));
        let allowed = expression
            .evaluate(|required| required.license.id().is_some_and(|licence| LICENCES.contains(&licence.name)));
        assert!(allowed, "{package}: {licence}");
    }
}
