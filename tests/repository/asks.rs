//! The table of what a change asks for leaves out no file and no check.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().expect("the command starts");
    assert!(output.status.success(), "{}", str::from_utf8(&output.stderr).unwrap());
    String::from_utf8(output.stdout).unwrap()
}

/// Promise: what asks for nothing was looked at.
#[test]
fn each_file_is_named_by_a_rule() {
    // A copy without its history has no list of its files.
    if !root().join(".git").exists() {
        return;
    }
    let files = output(Command::new("git").args(["-c", "safe.directory=*", "ls-files"]));
    let asks = output(Command::new("ci/all").arg("--asks").args(files.lines()));
    let unnamed: Vec<_> = asks.lines().filter(|line| line.ends_with("by no rule")).collect();
    assert!(unnamed.is_empty(), "name these in ci/asks: {unnamed:#?}");
    assert_eq!(asks.lines().count(), files.lines().count());

    let none = output(Command::new("ci/all").args(["--asks", "a-file-that-no-rule-names"]));
    assert_eq!(none.trim_end(), "a-file-that-no-rule-names: all, by no rule");
}

#[test]
fn the_groups_of_the_table_are_those_of_the_checks() {
    let table = fs::read_to_string(root().join("ci/asks")).unwrap();
    let rules = table.lines().filter(|line| !line.starts_with('#'));
    let used: BTreeSet<_> = rules.flat_map(|line| line.split_whitespace().skip(1)).collect();
    let told: BTreeSet<_> = table.lines().filter_map(|line| line.strip_prefix("# ")?.split_once("  ")).collect();
    let told = told.into_iter().map(|(group, _)| group).filter(|&group| group != "always").chain(["all"]).collect();
    assert_eq!(used, told, "in the rules, and at the head of ci/asks");

    let checks = fs::read_to_string(root().join("ci/all")).unwrap();
    let calls = checks.split("asked ").skip(1).filter_map(|rest| rest.split([';', '\n', '|', '&']).next());
    let known: BTreeSet<_> = calls.flat_map(str::split_whitespace).chain(["all"]).collect();
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "ci/all has no check for these: {unknown:?}");
}
