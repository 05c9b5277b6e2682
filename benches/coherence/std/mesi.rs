//! Cache lines in the states of the MESI protocol: modified, exclusive, shared, invalid.
//!
//! Each logical thread has a core of its own, with a cache that never evicts a line. So a line is transferred only
//! because another thread accesses it, never for lack of space.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The size of a cache line in bytes.
pub const LINE: usize = 64;

const MAX_THREADS: usize = 320;
const BITS: usize = u64::BITS as usize;

/// The kind of an access. A read-modify-write counts as a write, even if it fails, because it makes the line exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// All cache lines that were accessed.
#[derive(Default)]
pub struct Lines(HashMap<usize, Line, BuildHasherDefault<Multiply>>);

/// The state of a line. A modified line is in the cache of one thread. A clean line is exclusive in one cache, or
/// shared by several. It is invalid in all other caches.
#[derive(Default)]
struct Line {
    holders: [u64; MAX_THREADS / BITS],
    modified: bool,
}

impl Lines {
    /// Accesses a line. Returns whether it is transferred: whether `thread` reads a line that another thread has
    /// modified, or writes a line in another thread's cache.
    pub fn access(&mut self, line: usize, thread: usize, access: Access) -> bool {
        let line = self.0.entry(line).or_default();
        let others = line.is_held_by_others(thread);
        let transferred = match access {
            Access::Read => line.modified && others,
            Access::Write => others,
        };
        match access {
            // The owner writes the line back, and both share it.
            Access::Read => line.modified &= !others,
            Access::Write => {
                line.holders = Default::default();
                line.modified = true;
            }
        }
        line.holders[thread / BITS] |= 1 << (thread % BITS);
        transferred
    }
}

impl Line {
    fn is_held_by_others(&self, thread: usize) -> bool {
        let mut holders = self.holders;
        holders[thread / BITS] &= !(1 << (thread % BITS));
        holders != [0; MAX_THREADS / BITS]
    }
}

/// Hashes the number of a line.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a line is a number");
    }

    fn write_usize(&mut self, line: usize) {
        self.0 = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    #[track_caller]
    fn assert_transfers(accesses: &[(usize, Access)], expected: &[bool]) {
        let mut lines = Lines::default();
        let seen: Vec<_> = accesses.iter().map(|&(thread, access)| lines.access(7, thread, access)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_line_of_one_thread_stays() {
        assert_transfers(&[(0, Read), (0, Write), (0, Read), (0, Write)], &[false; 4]);
    }

    #[test]
    fn a_line_that_is_only_read_is_shared_by_all() {
        assert_transfers(&[(0, Read), (1, Read), (319, Read), (0, Read)], &[false; 4]);
    }

    #[test]
    fn a_modified_line_is_transferred_to_its_reader_once() {
        assert_transfers(&[(0, Write), (64, Read), (64, Read), (0, Read)], &[false, true, false, false]);
    }

    #[test]
    fn a_write_invalidates_all_other_copies() {
        assert_transfers(
            &[(0, Read), (1, Read), (1, Write), (1, Write), (0, Write)],
            &[false, false, true, false, true],
        );
    }
}
