//! The package of the crate has what its documentation needs, and no tables or plots.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the files of the package.
fn package() -> BTreeSet<String> {
    let list = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "corewheel"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    str::from_utf8(&list.stdout).expect("text").lines().map(String::from).collect()
}

#[test]
fn the_package_has_sources_pages_and_licences_alone() {
    let package = package();
    let page = |file: &str| {
        file.ends_with(".md") && (!file.starts_with("docs/benchmarks/") || file == "docs/benchmarks/README.md")
    };
    let source = |file: &str| file.starts_with("src/") && file.ends_with(".rs");
    let own = |file: &str| source(file) || page(file) || file == ".cargo_vcs_info.json";
    let others: Vec<_> = package.iter().filter(|file| !own(file)).map(String::as_str).collect();
    let expected = [
        "Cargo.lock",
        "Cargo.toml",
        "Cargo.toml.orig",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "docs/observability/alerts.yml",
        "docs/observability/dashboard.json",
    ];
    assert_eq!(others, expected);
}

/// The guide includes pages, and links to others by the address of the package's source on docs.rs.
#[test]
fn the_package_has_each_page_of_the_guide_and_each_link_of_the_readme() {
    let package = package();
    let guide = |file: &str| fs::read_to_string(root().join("src/guide").join(file)).expect("the guide");
    let (modules, links) = (guide("mod.rs"), guide("links.md"));
    let included = modules.lines().filter_map(|line| Some(line.trim().strip_suffix("\";")?.split_once(" = \"")?.1));
    let linked = links.lines().filter_map(|line| Some(line.split_once("/source/docs/")?.1));
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let readme = readme.split("](docs/").skip(1).filter_map(|link| link.split(')').next());
    let mut pages: Vec<_> = included.chain(linked).collect();
    pages.extend(readme.filter(|link| !link.ends_with(".svg")));
    let file = |page: &str| format!("docs/{}", page.split('#').next().expect("a page"));
    let missing: BTreeSet<_> = pages.iter().map(|page| file(page)).filter(|page| !package.contains(page)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(pages.len() > 40, "{} pages: too few to be all", pages.len());
}
