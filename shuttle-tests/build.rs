//! Sets `cfg(loom)`, which selects the explored files under the crate's `src`, and `cfg(shuttle)`.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-cfg=shuttle");
    // The crate's feature, which is never set here: `loom` stands for it.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"std\"))");
}
