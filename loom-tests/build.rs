//! Sets `cfg(loom)`, which selects the files under the crate's `src` that loom explores.

fn main() {
    println!("cargo::rustc-cfg=loom");
    // The crate's feature, which is never set here: `loom` stands for it.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"std\"))");
}
