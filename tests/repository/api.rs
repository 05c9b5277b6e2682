//! The public API is recorded in `api.txt`, so that a change shows as a difference.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[test]
#[ignore = "needs a nightly toolchain for rustdoc's JSON"]
fn the_public_api_matches_the_snapshot() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api");
    let documented = Command::new("rustup")
        .args(["run", "nightly", "cargo", "rustdoc", "--lib", "--all-features", "--quiet", "--target-dir"])
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format=json"])
        .current_dir(root)
        .status();
    assert!(documented.expect("rustup cannot be started").success(), "rustdoc failed");
    // The derived items differ between compiler versions.
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/corewheel.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .expect("a JSON format that public-api does not know");
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("api.txt");
    // The guide is there only in the documentation.
    let api: String = api
        .to_string()
        .lines()
        .filter(|item| !item.contains("corewheel::guide"))
        .fold(String::new(), |api, item| api + item + "\n");
    if env::var_os("UPDATE_SNAPSHOTS").is_some_and(|update| update == "yes") {
        fs::write(&record, &api).expect("the record is written");
    }
    assert!(
        fs::read_to_string(&record).expect("the record") == api,
        "the public API is not that of tests/repository/api.txt. To renew it, and see the difference in git, run
UPDATE_SNAPSHOTS=yes cargo test -p repository --test api -- --ignored"
    );
}
