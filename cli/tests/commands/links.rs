//! What the pages of the repository link to is there: the file, and in a page the heading, by GitHub's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders in which nothing of the repository is, wherever they are.
const OTHERS: [&str; 5] = [".git", "target", "tmp", "pkg", "artifacts"];

#[test]
fn whatever_a_page_links_to_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages = BTreeMap::new();
    collect(root, root, &mut pages);
    assert!(pages.len() >= 25, "found {} pages below {}", pages.len(), root.display());
    let (mut followed, mut dead) = (0, Vec::new());
    for (page, text) in &pages {
        for (line, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            if let Err(why) = follow(root, page, &target, &pages) {
                dead.push(format!("{}:{line}: {target}: {why}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(followed >= 200, "found {followed} links within the repository");
}

/// All pages below a folder, by their place in the repository.
fn collect(root: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if !OTHERS.iter().any(|other| name == *other) {
                collect(root, &path, pages);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
}

fn follow(root: &Path, page: &Path, target: &str, pages: &BTreeMap<PathBuf, String>) -> Result<(), String> {
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, at)| (file, Some(at)));
    let found = if file.is_empty() { page.to_owned() } else { place(page, file)? };
    if !root.join(&found).exists() {
        return Err(format!("there is no {}", found.display()));
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = pages.get(&found).ok_or_else(|| format!("{} is no page with headings", found.display()))?;
    if anchors(text).contains(heading) {
        return Ok(());
    }
    Err(format!("{} has no such heading", found.display()))
}

/// Where a file that a page names is in the repository.
fn place(page: &Path, file: &str) -> Result<PathBuf, String> {
    let mut found = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir if found.pop() => {}
            _ => return Err("it leaves the repository".to_owned()),
        }
    }
    Ok(found)
}

/// The lines that are not in a block of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<String> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let line = line.trim_start().trim_start_matches("> ");
        let ticks = line.chars().take_while(|&mark| mark == '`').count();
        let tildes = line.chars().take_while(|&mark| mark == '~').count();
        let mark = if ticks >= 3 { "`".repeat(ticks) } else { "~".repeat(tildes) };
        match &fence {
            Some(open) => {
                if mark.starts_with(open.as_str()) && line.trim() == mark {
                    fence = None;
                }
                false
            }
            None if mark.len() >= 3 => {
                fence = Some(mark);
                false
            }
            None => true,
        }
    })
}

/// A line without what stands between backticks in it.
fn without_code(line: &str) -> String {
    let mut parts = line.split('`');
    let first = parts.next().unwrap_or_default().to_owned();
    let parts: Vec<&str> = parts.collect();
    // One that is left alone is none.
    let rest = parts.iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, part)| *part);
    let alone = parts.len() % 2 == 1;
    first + &rest.collect::<String>() + if alone { parts.last().copied().unwrap_or_default() } else { "" }
}

/// What a page links to, with the line: `[text](target "title")`, images, and `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            found.extend(target.split_whitespace().next().map(|target| (number, target.to_owned())));
        }
        for part in line.split("](").skip(1) {
            let target = match part.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                Some((target, _)) => target,
                None => part.split([')', ' ']).next().unwrap_or_default(),
            };
            found.push((number, target.to_owned()));
        }
    }
    found
}

/// What headings can be linked to by: their text in lower case, with a hyphen for each space and without what is neither letter,
/// digit, hyphen nor underscore. One that was there before has a number behind it.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(text) {
        let level = line.chars().take_while(|&mark| mark == '#').count();
        let Some(heading) =
            line.get(level..).filter(|rest| (1..=6).contains(&level) && rest.starts_with(' '))
        else {
            continue;
        };
        let anchor: String = shown(heading.trim())
            .to_lowercase()
            .chars()
            .filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let before = times.entry(anchor.clone()).or_default();
        found.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    found
}

/// A heading as it is read: of a link its text alone.
fn shown(heading: &str) -> String {
    let mut text = String::new();
    let mut parts = heading.split("](");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    text
}

#[test]
fn headings_are_linked_to_as_on_github() {
    let page = "# `lease run`: what, and why?\n## [Rights](trust.md#a) & more\n```sh\n# no heading\n```\n## Lösen_2\n## A\n## A\n#none\n";
    let expected = ["lease-run-what-and-why", "rights--more", "lösen_2", "a", "a-1"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
}

#[test]
fn links_are_found_where_they_are_links() {
    let page =
        "[a](b.md#c \"title\") and ![d](<e f.png>)\n`[no](x)` [`code`](g.rs)\n```\n[no](y)\n```\n[h]: i.md\n";
    let found = links(page);
    let expected = [(1, "b.md#c"), (1, "e f.png"), (2, "g.rs"), (6, "i.md")];
    assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
}

#[test]
fn what_is_not_there_is_found_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages = BTreeMap::new();
    pages.insert(PathBuf::from("docs/errors.md"), "## What a fence says\n".to_owned());
    let go = |target: &str| follow(root, Path::new("docs/README.md"), target, &pages);
    assert_eq!(go("errors.md#what-a-fence-says"), Ok(()));
    assert_eq!(go("../docs/errors.md"), Ok(()));
    for dead in ["none.md", "errors.md#what-it-says", "../../README.md", "/etc/hosts", "../Cargo.toml#lints"]
    {
        assert!(go(dead).is_err(), "{dead}");
    }
}
