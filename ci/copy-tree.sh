# Scripts that change the source run this with `.` and a name. It changes to the root of the tree, makes a fresh copy of
# the tree, and sets `$copy` to its path. `$loom` is the prefix of a cargo command whose crossbeam-epoch uses loom.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=target/mutations/$1
rm -rf "$copy"
mkdir -p "$copy"
tar -c --exclude=./target --exclude=./.git . | tar -x -C "$copy"
export RUST_BACKTRACE=0
loom=(env CARGO_TARGET_DIR="$PWD/target/mutations" RUSTFLAGS='--cfg crossbeam_loom')
# Cargo compares times of files, so it would take a copy's artefacts for those of the tree. Make it compile them again.
trap 'rm -rf target/mutations/{,plain/}debug/.fingerprint/{adapters,coherence,corewheel,endurance,loom-tests,properties,shuttle-tests}-*' EXIT
