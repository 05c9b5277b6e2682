//! The pages of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all pages of `docs`, and those beside the code that link to others.
pub fn pages(root: &Path) -> Vec<PathBuf> {
    let folders = ["docs", "examples", "tests"].map(|folder| files(&root.join(folder), "md"));
    let pages = ["README.md", "CONTRIBUTING.md"].map(|page| root.join(page));
    folders.into_iter().flatten().chain(pages).collect()
}

/// Returns all files with this extension in a folder and its subfolders.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => files(&path, extension),
        Some(its) if its == extension => vec![path],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}
