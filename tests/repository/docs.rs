//! The documents agree with the files that they refer to: links resolve, the index of the tests is complete, and the
//! rooms of the crate import one way.

mod pages;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use pages::{files, pages};
use pulldown_cmark::{BrokenLink, Event, LinkType, Options, Parser, Tag, TagEnd};

/// What a page contains for the tests below.
struct Page {
    links: Vec<String>,
    /// What links to a definition that the page lacks. It is shown as text.
    undefined: Vec<String>,
    anchors: HashSet<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Self { links: Vec::new(), undefined: Vec::new(), anchors: HashSet::new() };
        let mut heading = None::<String>;
        let mut seen = HashMap::<String, usize>::new();
        let mut undefined = Vec::new();
        let without_definition = |link: BrokenLink| {
            if link.link_type == LinkType::Reference {
                undefined.push(link.reference.into_string());
            }
            None
        };
        for event in Parser::new_with_broken_link_callback(&text, Options::ENABLE_TABLES, Some(without_definition)) {
            if let (Some(heading), Event::Text(text) | Event::Code(text)) = (&mut heading, &event) {
                heading.push_str(text);
            }
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().expect("the heading has begun"));
                    let times = seen.entry(slug.clone()).and_modify(|times| *times += 1).or_insert(0);
                    page.anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
                }
                _ => {}
            }
        }
        page.undefined = undefined;
        page
    }
}

/// Returns the anchor that GitHub gives to a heading.
fn slug(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(|&c| kept(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_link_leads_somewhere() {
    let pages: HashMap<_, _> =
        pages(root()).into_iter().map(|path| (path.canonicalize().unwrap(), Page::read(&path))).collect();
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, page) in &pages {
        broken.extend(page.undefined.iter().map(|link| format!("{}: [{link}] has no definition", path.display())));
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            checked += 1;
            let (file, anchor) = link.split_once('#').map_or((&**link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { path.with_file_name("").join(file) };
            let found = target.canonicalize().is_ok_and(|target| {
                anchor.is_none_or(|anchor| pages.get(&target).is_some_and(|page| page.anchors.contains(anchor)))
            });
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 100, "{checked} links: too few to be all");
}

#[test]
fn the_index_of_the_tests_lists_each_file_and_no_other() {
    let tests = root().join("tests");
    let index = Page::read(&tests.join("README.md"));
    let listed: BTreeSet<_> =
        index.links.iter().filter(|link| !link.starts_with("../")).map(|link| tests.join(link)).collect();
    // The main file of a folder stands for the others in it.
    let is_part = |path: &Path| {
        ["mod.rs", "main.rs"].map(|main| path.with_file_name(main)).iter().any(|main| main.exists() && main != path)
    };
    let files: BTreeSet<_> = files(&tests, "rs").into_iter().filter(|path| !is_part(path)).collect();
    let missing: Vec<_> = files.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&files).collect();
    assert!(missing.is_empty() && gone.is_empty(), "tests/README.md lacks {missing:#?}, and lists {gone:#?}");
    assert!(files.len() > 50, "{} files: too few to be all", files.len());
}

/// cargo finds the files in `tests` itself, but not those of the packages there.
#[test]
fn each_file_with_tests_is_a_target_of_its_package() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in files(&root().join("tests"), "rs") {
        let Ok(manifest) = fs::read_to_string(path.with_file_name("Cargo.toml")) else { continue };
        if fs::read_to_string(&path).unwrap().contains("test]\n") {
            checked += 1;
            let target = format!("path = \"{}\"", path.file_name().unwrap().display());
            if !manifest.contains(&target) {
                wrong.push(format!("{}: its Cargo.toml lacks a [[test]] with {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 15, "{checked} files: too few to be all");
}

/// The pages of the guide are modules of the documentation, where a link that is relative to `docs` leads nowhere.
#[test]
fn every_link_of_the_guide_leads_somewhere_in_the_documentation_too() {
    let guide = |file: &str| fs::read_to_string(root().join("src/guide").join(file)).unwrap();
    let (modules, links) = (guide("mod.rs"), guide("links.md"));
    let pages = modules.lines().filter_map(|line| line.trim().strip_suffix("\";")?.split_once(" = \""));
    let mut missing = Vec::new();
    let mut checked = 0;
    for (_, page) in pages {
        let path = root().join("docs").join(page);
        let text = fs::read_to_string(&path).unwrap();
        for link in Page::read(&path).links {
            if link.contains("://") || link.starts_with('#') {
                continue;
            }
            checked += 1;
            if text.contains(&format!("]({link})")) {
                missing.push(format!(
                    "{page}: write `][{link}]`, with a definition at the end of the page, not `]({link})`"
                ));
            }
            if !links.contains(&format!("[{link}]: ")) {
                missing.push(format!("{page}: add {link} to src/guide/links.md"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 60, "{checked} links: too few to be all");
}

/// Lines of an example that a reader does not see. Pasted without them, into a function that returns a `Result` or is
/// async, the example must compile.
#[test]
fn examples_hide_nothing_that_a_reader_needs() {
    const HIDDEN: [&str; 7] =
        ["#[cfg(feature", "Ok::<(), ", "fn main() ", "futures::executor::block_on(async {", "}", "});", "drop("];
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in files(&root().join("src"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_example = false;
        for line in text.lines() {
            let Some(doc) = line.trim().strip_prefix("///").or_else(|| line.trim().strip_prefix("//!")) else {
                in_example = false;
                continue;
            };
            let doc = doc.trim();
            if doc.starts_with("```") {
                in_example = !in_example;
            } else if let Some(hidden) = doc.strip_prefix("# ").filter(|_| in_example) {
                checked += 1;
                if !HIDDEN.iter().any(|start| hidden.trim().starts_with(start)) {
                    wrong.push(format!("{}: the example must show `{hidden}`", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "{checked} hidden lines: too few to be all");
}

/// Where the time is virtual, `Instant::now()` is not the timer's: a deadline that an example computes by it would be due
/// at once, or never.
#[test]
fn no_example_computes_a_deadline_by_the_real_clock() {
    // To measure how long something took, and to wait beside a `Driver`, which no timer in virtual time has.
    const MEASURES: [&str; 3] =
        ["let start = Instant::now();", "send(Instant::now())", "duration_since(Instant::now())"];
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in pages(root()).into_iter().chain(files(&root().join("src"), "rs")) {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let mut in_example = false;
        for line in fs::read_to_string(&path).unwrap().lines().map(str::trim) {
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let text = if is_source { doc.unwrap_or_default() } else { line };
            in_example ^= text.trim().starts_with("```");
            if in_example && text.contains("Instant::now()") {
                checked += 1;
                if !MEASURES.iter().any(|measures| text.contains(measures)) {
                    wrong.push(format!("{}: write `timer.now()` in {}", path.display(), text.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 5, "{checked} lines: too few to be all");
}

/// By the table of rooms: each room that imports is in the table, and imports only from rows below its own.
#[test]
fn the_rooms_import_one_way() {
    let page = fs::read_to_string(root().join("docs/internals/architecture.md")).unwrap();
    let table = page.split("\n## ").find(|section| section.starts_with("The rooms")).unwrap();
    let mut lines = HashMap::new();
    for (line, row) in table.lines().filter(|row| row.starts_with("| [")).enumerate() {
        let cell = row.split(" | ").next().unwrap();
        lines.extend(cell.split('`').skip(1).step_by(2).map(|room| (room.to_owned(), line)));
    }
    let src = root().join("src");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in files(&src, "rs") {
        let inside = path.strip_prefix(&src).unwrap().with_extension("");
        let room = inside.iter().next().unwrap().to_str().unwrap();
        if room == "lib" {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        let imports = code.flat_map(|line| line.split("crate::").skip(1));
        let names = imports.map(|import| import.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
        for name in names.filter(|&name| name != room) {
            let Some(line) = lines.get(name) else { continue };
            checked += 1;
            if lines.get(room).is_none_or(|own| line <= own) {
                wrong.push(format!("{} imports {name}, no room below {room} in architecture.md", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 50, "{checked} imports: too few to be all");
}
