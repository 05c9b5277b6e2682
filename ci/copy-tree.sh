# Scripts that change the source read this file with `.` and a name. It changes to the root of the tree, copies the tree to
# target/mutations/NAME, and sets `$copy` to that path. `$loom` is the prefix of a cargo command whose crossbeam-epoch uses
# loom.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=target/mutations/$1
rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git . | tar -x -C "$copy"
export RUST_BACKTRACE=0
loom=(env CARGO_TARGET_DIR="$PWD/target/mutations" RUSTFLAGS='--cfg crossbeam_loom')
# Cargo compares only the times of files, so it would reuse a copy's artefacts for the tree. Without fingerprints it
# compiles them again.
trap 'rm -rf target/{,mutations/}debug/.fingerprint/{adapters,coherence,corewheel,endurance,loom-tests,properties,shuttle-tests}-*' EXIT
