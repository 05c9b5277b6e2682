//! Numbers and durations as text of a few columns.

use std::time::Duration;

/// Returns a count with a comma between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number a second: with a decimal place below 10.
pub fn rate(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

/// Returns a duration of at most eight columns, in three digits where it has so many.
pub fn duration(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    let (value, unit) = match nanos {
        ..1e3 => return format!("{nanos} ns"),
        // Just below a unit, three digits would be rounded up to it.
        ..999.5e3 => (nanos / 1e3, "µs"),
        ..999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let places = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.places$} {unit}")
}

/// Returns a time in whole seconds, as hours, minutes and seconds.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_between_thousands() {
        assert_eq!([0, 999, 1000, 123_456, 1_234_567].map(count), ["0", "999", "1,000", "123,456", "1,234,567"]);
        assert_eq!([0.0, 0.5, 9.94, 9.96, 1234.5].map(rate), ["0", "0.5", "9.9", "10", "1,235"]);
    }

    #[test]
    fn durations_have_three_digits() {
        let texts = [0, 999, 1000, 9_996, 65_536, 999_600, 1_250_000, 12_345_678, 2_500_000_000];
        let texts = texts.map(|nanos| duration(Duration::from_nanos(nanos)));
        let expected = ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "65.5 µs", "1.00 ms", "1.25 ms", "12.3 ms", "2.50 s"];
        assert_eq!(texts, expected);
        assert_eq!([5, 65, 3725].map(|s| time(Duration::from_secs(s))), ["5 s", "1 min 5 s", "1 h 2 min"]);
    }
}
