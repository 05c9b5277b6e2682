//! Writes the saved results, and all that is made of them: the tables, the summary and the plots.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::saved::{SavedResults, read};
use crate::workload::Scale;
use crate::{plot, report, summary};

const TABLES: &str = "compare.md";
const PAGE: &str = "README.md";

pub fn write(saved: &SavedResults, scale: Scale, directory: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    for (file, text) in files(saved, directory)? {
        fs::write(directory.join(file), text)?;
    }
    plot::all(saved, scale, directory)
}

/// Fails if a text differs from what `write` would write.
pub fn check(saved: &SavedResults, directory: &Path) -> Result<(), Box<dyn Error>> {
    for (file, should) in files(saved, directory)? {
        let is = read(&directory.join(file))?;
        if let Some((is, should)) = is.lines().zip(should.lines()).find(|(is, should)| is != should) {
            return Err(format!("{file} has\n{is}\nbut the record\n{should}").into());
        }
        if is.len() != should.len() {
            return Err(format!("{file} and the record differ in length").into());
        }
    }
    Ok(())
}

/// Returns the text files, each with its name.
fn files(saved: &SavedResults, directory: &Path) -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    let mut files = Vec::from(saved.files());
    files.push((TABLES, report::markdown(&saved.record)));
    // Another directory than the repository's has no page for the summary.
    let page = read(&directory.join(PAGE))?;
    if !page.is_empty() {
        files.push((PAGE, summary::renew(&page, &saved.record)?));
    }
    Ok(files)
}
