//! The dashboard and the alerts query metrics that the adapter exports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("corewheel_")).collect()
}

fn assert_exported(queries: &str) {
    let adapter = read("src/adapter/metrics.rs");
    // The names in strings, not those that comments mention.
    let exported: BTreeSet<_> = adapter.split('"').skip(1).step_by(2).collect();
    for metric in metrics(queries) {
        assert!(exported.contains(metric), "the adapter exports no {metric}");
    }
}

#[test]
fn each_panel_of_the_dashboard_queries_exported_metrics() {
    let dashboard: Value = serde_json::from_str(&read("docs/observability/dashboard.json")).expect("JSON");
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            assert!(!metrics(query).is_empty(), "{query}");
            assert_exported(query);
        }
    }
}

#[test]
fn each_alert_queries_exported_metrics() {
    let alerts = read("docs/observability/alerts.yml");
    assert!(metrics(&alerts).len() > 4, "{:?}", metrics(&alerts));
    assert_exported(&alerts);
    assert_exported(&read("docs/observability.md"));
}

/// `ci/all` runs the cases, where promtool is installed.
#[test]
fn each_alert_is_on_the_page_and_has_a_case() {
    let names = |text: &str, before: &str, after: char| -> BTreeSet<String> {
        text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0.to_owned())).collect()
    };
    let alerts = names(&read("docs/observability/alerts.yml"), "- alert: ", '\n');
    let page = read("docs/observability.md");
    let table = page.split("\n## ").find(|section| section.starts_with("Alerts")).expect("the alerts");
    assert_eq!(names(table, "\n| `", '`'), alerts);
    assert_eq!(names(&read("tests/repository/alerts.yml"), "alertname: ", ','), alerts);
}
