//! Figures that a page quotes. A comment identifies the lines of the record, and the figure follows it:
//!
//! ```text
//! <!-- figure: w1; 1 thread, 10^6 standing; corewheel; ns a pair -->93.1 ns
//! <!-- figure: w1; 1 thread, 10^6 standing; tokio / corewheel; ns a pair -->1.45x
//! <!-- figure: w7; 10^6 standing; heap; ns a call, max; millionths -->243 ms
//! ```
//!
//! The fields of a key are columns of the record: workload, case, contender, figure. A slash in a field means the ratio
//! of two lines. A fifth field selects the `least` or the `most` instead of the median, or `millionths` of the median.

use super::record::{Median, Record, number};

const BEGIN: &str = "<!-- figure: ";
const END: &str = " -->";
const RATIO: &str = " / ";

/// Returns the page with the recorded figures, and their number.
pub fn renew(page: &str, record: &Record) -> Result<(String, usize), String> {
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for part in parts {
        // At the beginning of a line, the comment would start a block of HTML and end the paragraph.
        if text.rsplit('\n').next().is_none_or(|line| line.trim().is_empty()) {
            return Err(format!("a comment at the beginning of a line: {part:.60}"));
        }
        let (key, rest) = part.split_once(END).ok_or_else(|| format!("the comment does not end: {part:.60}"))?;
        let value = value(key, record).ok_or_else(|| format!("the record has no {key}"))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',')).unwrap_or(rest.len());
        // A point or a comma at the end belongs to the sentence.
        let quoted = rest[..digits].trim_end_matches(['.', ',']);
        text += &format!("{BEGIN}{key}{END}{}{}", number(value), &rest[quoted.len()..]);
        count += 1;
    }
    Ok((text, count))
}

fn value(key: &str, record: &Record) -> Option<f64> {
    let left = one(&side(key, |left, _| left), record)?;
    if !key.contains(RATIO) {
        return Some(left);
    }
    Some(left / one(&side(key, |_, right| right), record)?)
}

/// Returns the fields of the key, with one side of each ratio.
fn side<'a>(key: &'a str, which: fn(&'a str, &'a str) -> &'a str) -> Vec<&'a str> {
    key.split("; ").map(|field| field.split_once(RATIO).map_or(field, |(left, right)| which(left, right))).collect()
}

fn one(fields: &[&str], record: &Record) -> Option<f64> {
    let &[workload, case, contender, figure, ref which @ ..] = fields else { return None };
    let Median { value, min, max } = record.median(workload, case, contender, figure)?;
    match which {
        [] => Some(value),
        ["least"] => Some(min),
        ["most"] => Some(max),
        ["millionths"] => Some(value / 1e6),
        _ => None,
    }
}
