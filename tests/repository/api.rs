//! The public API is the one written down in `docs/api.txt`, so that whoever changes it sees what he changes.

use std::path::Path;
use std::process::Command;

/// To write it down anew: `UPDATE_SNAPSHOTS=yes cargo test -p repository --test api -- --ignored`.
#[test]
#[ignore = "needs a nightly toolchain, whose documentation can be read by a program"]
fn is_as_written_down() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api");
    let documented = Command::new("rustup")
        .args(["run", "nightly", "cargo", "rustdoc", "--lib", "--all-features", "--quiet", "--target-dir"])
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format=json"])
        .current_dir(root)
        .status();
    assert!(documented.expect("rustup starts").success(), "the crate can be documented");
    // What the compiler derives by itself differs from one to the next.
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/corewheel.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .expect("a format that public-api knows");
    api.assert_eq_or_update(root.join("docs/api.txt"));
}
