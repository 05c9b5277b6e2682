//! Writes the saved results, and all that is made of them: the tables, the plots, and the figures that pages quote.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::figures::record::Record;
use crate::figures::{pages, quote, summary};
use crate::saved::{SavedResults, read};
use crate::workload::Scale;
use crate::{plot, report};

const TABLES: &str = "compare.md";
/// Directory of the repository's record, which its pages quote.
const OF_THE_REPOSITORY: &str = "docs/benchmarks";

/// Writes the results, the tables, the plots, and the figures that pages quote.
pub fn write(saved: &SavedResults, scale: Scale, directory: &Path) -> Result<(), Box<dyn Error>> {
    saved.write(directory)?;
    fs::write(directory.join(TABLES), report::markdown(&saved.record))?;
    plot::all(saved, scale, directory)?;
    if directory.ends_with(OF_THE_REPOSITORY) {
        write_pages(&saved.record, directory)?;
    }
    Ok(())
}

/// Fails if the tables differ from those that `write` would write.
pub fn check(saved: &SavedResults, directory: &Path) -> Result<(), Box<dyn Error>> {
    let (is, should) = (read(&directory.join(TABLES))?, report::markdown(&saved.record));
    match is.lines().zip(should.lines()).find(|(is, should)| is != should) {
        Some((is, should)) => Err(format!("{TABLES} has\n{is}\nbut the record\n{should}").into()),
        None if is.len() != should.len() => Err(format!("{TABLES} and the record differ in length").into()),
        None => Ok(()),
    }
}

fn write_pages(record: &Record, directory: &Path) -> Result<(), Box<dyn Error>> {
    let readme = directory.join("README.md");
    fs::write(&readme, summary::renew(&fs::read_to_string(&readme)?, record)?)?;
    let root = directory.ancestors().nth(2).expect("the directory ends with two folders");
    for page in pages::pages(root) {
        let text = fs::read_to_string(&page)?;
        let (renewed, _) = quote::renew(&text, record).map_err(|why| format!("{}: {why}", page.display()))?;
        if renewed != text {
            fs::write(page, renewed)?;
        }
    }
    Ok(())
}
