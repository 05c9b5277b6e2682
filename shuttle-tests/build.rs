//! Sets `cfg(loom)`, which selects the explored files under the crate's `src`, and `cfg(shuttle)`.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-cfg=shuttle");
}
