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
    let page = read("docs/observability.md");
    assert!(metrics(&page).len() > 4, "{:?}", metrics(&page));
    assert_exported(&page);
}
