//! The command lines of the examples.

#![allow(dead_code, reason = "some examples have no option, and others no need of the rest")]

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use bpaf::{Parser, long, pure};

/// An option whose value is a number of this range.
pub fn number<T>(name: &'static str, help: &'static str, range: RangeInclusive<T>) -> impl Parser<T>
where
    T: FromStr<Err: Display> + Display + PartialOrd + 'static,
{
    let check = move |value| {
        let is_allowed = range.contains(&value);
        is_allowed.then_some(value).ok_or_else(|| format!("must be between {} and {}", range.start(), range.end()))
    };
    long(name).help(help).argument::<T>("N").parse(check)
}

/// As [`number`], with a value for its absence, which the help shows.
pub fn number_or<T>(name: &'static str, help: &'static str, range: RangeInclusive<T>, default: T) -> impl Parser<T>
where
    T: FromStr<Err: Display> + Display + PartialOrd + Clone + 'static,
{
    number(name, help, range).fallback(default).display_fallback()
}

/// Reads the command line of a program that has no options. An argument, or the request for help, ends the program.
pub fn none(description: &'static str) {
    pure(()).to_options().descr(description).run()
}
