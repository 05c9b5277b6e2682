//! The dependencies may be used wherever this crate may be used.

use std::collections::BTreeSet;
use std::process::Command;

use spdx::{Expression, ParseMode};

const LICENCES: [&str; 8] =
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"];

/// Returns the names and licences of this package and of all others that are built on this platform.
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
fn every_dependency_has_a_licence_as_permissive_as_ours() {
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for (package, licence) in packages {
        let expression = Expression::parse_mode(&licence, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("the licence of {package} is unknown: {error}"));
        let allowed = expression
            .evaluate(|required| required.license.id().is_some_and(|licence| LICENCES.contains(&licence.name)));
        assert!(allowed, "{package}: {licence}");
    }
}
