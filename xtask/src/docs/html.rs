//! What the pages of the built site are checked for, and how they are made smaller and easier to read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The page that all others are reached from.
const FRONT: &str = "index.html";
/// Written for whatever stands in place of a page that there is not.
const LOST: &str = "404.html";
/// Pages that the service has besides those of the site.
const BESIDES: [&str; 1] = ["api.html"];
/// Elements without an end.
const RAW: [&str; 2] = ["script", "style"];

/// An element as it begins.
#[derive(Debug, PartialEq)]
struct Element<'a> {
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Element<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.attributes.iter().find(|(has, _)| *has == name).map(|(_, value)| *value)
    }
}

/// The elements of a page, in their order. The builder's HTML is well formed.
fn elements(html: &str) -> Vec<Element<'_>> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let name_end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let name = &rest[..name_end];
        if name.is_empty() {
            continue;
        }
        let (attributes, after) = attributes(&rest[name_end..]);
        rest = after;
        if RAW.contains(&name) {
            let end = format!("</{name}>");
            rest = rest.find(&end).map_or("", |at| &rest[at..]);
        }
        found.push(Element { name, attributes });
    }
    found
}

/// The attributes up to the end of an element's beginning, and what is behind it.
fn attributes(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() {
            return (found, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=>/".contains(c));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let Some(value) = after.strip_prefix('=') else {
            found.push((name, ""));
            rest = after;
            continue;
        };
        let quote = value.chars().next().filter(|c| ['"', '\''].contains(c));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => {
                let end = value.find(|c: char| c.is_whitespace() || c == '>');
                value.split_at(end.unwrap_or(value.len()))
            }
        };
        found.push((name, value));
        rest = after;
    }
}

/// What is wrong with the pages of a site, given with its other files.
pub fn problems(pages: &BTreeMap<PathBuf, String>, files: &BTreeSet<PathBuf>) -> Vec<String> {
    let parsed: BTreeMap<&Path, Vec<Element<'_>>> =
        pages.iter().map(|(path, html)| (path.as_path(), elements(html))).collect();
    let anchors: BTreeMap<&Path, BTreeSet<&str>> = parsed
        .iter()
        .map(|(path, elements)| {
            (*path, elements.iter().filter_map(|element| element.get("id")).collect())
        })
        .collect();
    let mut problems = Vec::new();
    let mut links: BTreeMap<&Path, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, elements) in &parsed {
        if *path == Path::new(LOST) {
            continue;
        }
        let mut found: Vec<String> = alone(&pages[*path], elements);
        for element in elements {
            let to = match element.name {
                "a" => element.get("href"),
                "img" => element.get("src").filter(|to| !to.starts_with("data:")),
                _ => None,
            };
            match to.map_or(Ok(None), |to| leads(path, to, files, &anchors)) {
                Ok(page) => links.entry(*path).or_default().extend(page),
                Err(problem) => found.push(problem),
            }
        }
        found.sort();
        found.dedup();
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    let reached = reached(&links);
    let lost = parsed.keys().filter(|path| **path != Path::new(LOST) && !reached.contains(**path));
    problems.extend(lost.map(|path| format!("{}: no link leads there", path.display())));
    problems
}

/// What is wrong with a page by itself.
fn alone(html: &str, elements: &[Element<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    let n_titles = elements.iter().filter(|element| element.name == "h1").count();
    if n_titles != 1 {
        problems.push(format!("{n_titles} elements h1"));
    }
    for element in elements {
        if element.name == "img" && element.get("alt").is_none_or(str::is_empty) {
            problems.push(format!("a picture without words: {:?}", element.get("src")));
        }
        // What a browser fetches by itself; a link to elsewhere is for who follows it.
        let fetched = match element.name {
            "a" => None,
            "link" if element.get("rel") == Some("canonical") => None,
            _ => element.get("src").or_else(|| element.get("href")),
        };
        if let Some(elsewhere) = fetched.filter(|to| to.contains("//")) {
            problems.push(format!("loads {elsewhere}"));
        }
        if element.name == "script" && element.get("src").is_none() && element.get("type").is_none()
        {
            problems.push("a script in the page".to_owned());
        }
    }
    if takes_the_name(&text(html)) {
        problems.push(
            "installs `molbox`, a package of others; its name is one of ours with a suffix"
                .to_owned(),
        );
    }
    problems
}

/// Whether a text says `pip install molbox` without what makes the name ours.
fn takes_the_name(text: &str) -> bool {
    text.match_indices("pip install molbox").any(|(at, found)| {
        let rest = &text[at + found.len()..];
        !rest.starts_with('-') && !rest.starts_with('d')
    })
}

/// A page without its elements: highlighting puts some into every line of code.
fn text(html: &str) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    for c in html.chars() {
        match c {
            '<' => is_inside = true,
            '>' => is_inside = false,
            c if !is_inside => out.push(c),
            _ => {}
        }
    }
    out
}

/// The page of the site that a link leads to, if it leads to one.
fn leads(
    from: &Path,
    to: &str,
    files: &BTreeSet<PathBuf>,
    anchors: &BTreeMap<&Path, BTreeSet<&str>>,
) -> Result<Option<PathBuf>, String> {
    if to.contains("://") || to.starts_with("mailto:") || to.starts_with("javascript:") {
        return Ok(None);
    }
    let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
    let target = match file {
        "" => from.to_owned(),
        file => joined(from.parent().unwrap_or(Path::new("")), file),
    };
    let target = if target.as_os_str().is_empty() { PathBuf::from(FRONT) } else { target };
    if BESIDES.iter().any(|page| target == Path::new(page)) {
        return Ok(None);
    }
    let Some(has) = anchors.get(target.as_path()) else {
        return if files.contains(&target) {
            Ok(None)
        } else {
            Err(format!("leads nowhere: {to}"))
        };
    };
    // The theme's own names appear when its scripts run.
    if !anchor.is_empty() && !anchor.starts_with("__") && !has.contains(anchor) {
        return Err(format!("leads to no heading: {to}"));
    }
    Ok(Some(target))
}

fn joined(folder: &Path, to: &str) -> PathBuf {
    folder.join(to).components().fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::Normal(name) => out.push(name),
            _ => {}
        }
        out
    })
}

/// The pages to which links lead from the front page, over any number of others.
fn reached(links: &BTreeMap<&Path, BTreeSet<PathBuf>>) -> BTreeSet<PathBuf> {
    let mut reached = BTreeSet::from([PathBuf::from(FRONT)]);
    let mut left = vec![PathBuf::from(FRONT)];
    while let Some(page) = left.pop() {
        for next in links.get(page.as_path()).into_iter().flatten() {
            if reached.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    reached
}

/// A page without what indents its lines, a fifth of it; code is left as it is.
pub fn without_indents(html: &str) -> String {
    outside_blocks(html, joined_lines)
}

/// A page with options of commands in elements of their own, which its style keeps whole: browsers
/// break lines behind dashes.
pub fn with_whole_options(html: &str) -> String {
    outside_blocks(html, |text| {
        let mut out = String::with_capacity(text.len());
        for (n, part) in text.split("<code>").enumerate() {
            let (code, after) = match part.split_once("</code>") {
                Some((code, after)) if n > 0 => (code, after),
                _ => ("", part),
            };
            if n > 0 {
                let words: Vec<_> = code.split(' ').map(whole_option).collect();
                out += &format!("<code>{}</code>", words.join(" "));
            }
            out += after;
        }
        out
    })
}

/// A word of code, in an element if it is an option.
fn whole_option(word: &str) -> Cow<'_, str> {
    if word.starts_with("--") && !word.contains('<') {
        Cow::Owned(format!("<span class=option>{word}</span>"))
    } else {
        Cow::Borrowed(word)
    }
}

/// A page changed where it is no block of code.
fn outside_blocks(html: &str, change: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(start) = rest.find("<pre") {
        let end = rest[start..].find("</pre>").map_or(rest.len(), |length| start + length);
        out += &change(&rest[..start]);
        out += &rest[start..end];
        rest = &rest[end..];
    }
    out + &change(rest)
}

/// Lines without blanks before them, and without empty ones; where there was a break stays one.
fn joined_lines(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    let n_more = lines.clone().count();
    for (n, line) in lines.enumerate() {
        let line = line.trim_start();
        if !line.is_empty() || n + 1 == n_more {
            out.push('\n');
            out += line;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: BTreeMap<PathBuf, String> =
            pages.iter().map(|(path, html)| (PathBuf::from(path), (*html).to_owned())).collect();
        let others = ["a.js", "a.png", "guides/a.png"].map(PathBuf::from);
        let files = pages.keys().cloned().chain(others).collect();
        problems(&pages, &files)
    }

    const GOOD: &str = "<h1 id=one>A</h1><img src='a.png' alt=\"words\"><script src=a.js>";

    #[test]
    fn a_good_site_has_no_problems() {
        let front = format!("{GOOD}</script><a href=guides/b.html#one>b</a><a href=#one>c</a>");
        assert_eq!(found(&[("index.html", &front), ("guides/b.html", GOOD)]), [""; 0]);
    }

    #[test]
    fn lines_lose_their_indents_and_code_does_not() {
        let html = "<p>\n   a\n\n  b</p>\n  <pre>\n    c\n\n</pre>\n   <p>d\n  ";
        assert_eq!(without_indents(html), "<p>\na\nb</p>\n<pre>\n    c\n\n</pre>\n<p>d\n");
    }

    #[test]
    fn options_are_kept_whole_in_sentences_and_blocks_stay_as_they_are() {
        let html = "<p>--a <code>b --c=d e</code>, <code>-</code></p><pre><code>b --c</code></pre>";
        assert_eq!(
            with_whole_options(html),
            "<p>--a <code>b <span class=option>--c=d</span> e</code>, <code>-</code></p>\
             <pre><code>b --c</code></pre>"
        );
        assert_eq!(with_whole_options("<code><a>--b</a></code>"), "<code><a>--b</a></code>");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_page() {
        for (html, problem) in [
            ("<h1>A</h1><a href=\"none.html\">", "leads nowhere: none.html"),
            ("<h1>A</h1><img src=b.png alt=words>", "leads nowhere: b.png"),
            ("<h1>A</h1><a href=\"#none\">", "leads to no heading: #none"),
            ("<h1>A</h1><h1>B</h1>", "2 elements h1"),
            ("<h1>A</h1><img src=a.png>", "a picture without words: Some(\"a.png\")"),
            (
                "<h1>A</h1><script src=\"https://unpkg.com/x.js\"></script>",
                "loads https://unpkg.com/x.js",
            ),
            ("<h1>A</h1><script>1</script>", "a script in the page"),
            (
                "<h1>A</h1><code><span>pip</span> install molbox</code>",
                "installs `molbox`, a package of others; its name is one of ours with a suffix",
            ),
        ] {
            assert_eq!(found(&[("index.html", html)]), [format!("index.html: {problem}")]);
        }
        assert_eq!(
            found(&[("index.html", "<h1>A</h1>"), ("lost.html", "<h1>B</h1>")]),
            ["lost.html: no link leads there"]
        );
        assert!(!takes_the_name("pip install molboxd, pip install molbox-client"));
    }
}
