//! Several values as text.

/// Formats the median, and in brackets the minimum and the maximum.
pub fn spread(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let [median, min, max] = [values.len() / 2, 0, values.len() - 1].map(|index| values[index]);
    format!("{median:.decimals$} ({min:.decimals$} – {max:.decimals$})")
}
