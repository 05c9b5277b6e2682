//! Lines on the standard output, for programs whose output may be piped into `head`, and the numbers in them.

/// As std's `println!`, but ends the program, without a panic, when nobody reads its output any more.
macro_rules! println {
    () => {
        $crate::output::print(format_args!(""))
    };
    ($($line:tt)*) => {
        $crate::output::print(format_args!($($line)*))
    };
}

/// Prints a line.
pub fn print(line: std::fmt::Arguments<'_>) {
    use std::io::{ErrorKind, Write, stdout};

    match writeln!(stdout(), "{line}") {
        Ok(()) => {}
        // Ends what the program has started, as a panic does, but without a message.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::panic::resume_unwind(Box::new(error)),
        Err(error) => panic!("standard output: {error}"),
    }
}

/// Formats a number with a comma before each three digits.
#[allow(dead_code, reason = "some examples print no large number")]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}
