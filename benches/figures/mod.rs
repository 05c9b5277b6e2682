//! The recorded figures of the comparison, and the pages that quote them.
//!
//! `docs/benchmarks/results.tsv` has one line for each figure of each contender in each case. A line has the date and
//! the commit of its run, so a run replaces its own lines and keeps the others. `compare` writes the file, the pages
//! and the plots; `tests/repository/docs.rs` checks that the pages say what the file says.
//!
//! | file      | contents                                                          |
//! |-----------|-------------------------------------------------------------------|
//! | `record`  | the file's lines, and a number as text                            |
//! | `pages`   | the pages of the repository                                       |
//! | `quote`   | the figures that a page quotes                                    |
//! | `summary` | the summary in `docs/benchmarks/README.md`                        |

pub mod pages;
pub mod quote;
pub mod record;
pub mod summary;
