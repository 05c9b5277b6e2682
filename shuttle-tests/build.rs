//! Tells the files under `src` of the crate that they are compiled for loom.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-cfg=shuttle");
}
