//! The pages of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the readme and all pages in `docs` and `examples`.
pub fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(files(&root.join("examples"), "md"));
    pages.push(root.join("README.md"));
    pages
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
