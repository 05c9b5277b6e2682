//! Sets `cfg(loom)`, which selects the files under the crate's `src` that loom explores.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
