//! The public API is the one written down in `docs/api.txt`, so that whoever changes it sees what he changes.

use std::path::Path;

/// To write it down anew: `UPDATE_SNAPSHOTS=yes cargo test --test api -- --ignored`.
#[test]
#[ignore = "needs a nightly toolchain, whose documentation can be read by a program"]
fn is_as_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documentation = rustdoc_json::Builder::default()
        .toolchain("nightly")
        .manifest_path(root.join("Cargo.toml"))
        .target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("api"))
        .all_features(true)
        .quiet(true)
        .build()
        .expect("the crate can be documented");
    // What the compiler derives by itself differs from one to the next.
    let api = public_api::Builder::from_rustdoc_json(documentation)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .expect("a format that public-api knows");
    api.assert_eq_or_update(root.join("docs/api.txt"));
}
