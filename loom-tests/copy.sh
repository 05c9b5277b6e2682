# Sourced by the scripts that change the source, with the name of a copy: makes a fresh copy of the tree, `$copy`, and
# goes to the root of the tree. `$loom` runs cargo with an epoch that loom knows.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=target/mutations/$1
rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git . | tar -x -C "$copy"
export RUST_BACKTRACE=0
loom=(env CARGO_TARGET_DIR="$PWD/target/mutations" RUSTFLAGS='--cfg crossbeam_loom')
# FreeList takes what is compiled of a copy for fresh, by its time, also where the tree itself is compiled next.
trap 'rm -rf target/mutations/{,plain/}debug/.fingerprint/{coherence,corewheel,loom-tests,shuttle-tests}-*' EXIT
