//! Who imports whom in the portal, and words that stand in one place of it only.

use std::path::Path;

use anyhow::Result;

use crate::shell::root;
use crate::sources::each_file;

const SOURCES: &str = "portal/src";

/// Folders, and those whose files theirs may import; files of one folder import each other.
const MAY_IMPORT: [(&str, &[&str]); 6] = [
    ("api", &[]),
    ("chart", PARTS),
    ("form", PARTS),
    ("part", PARTS),
    ("viewer", PARTS),
    ("page", PARTS),
];
/// What several pages are made of. None of these knows a page.
const PARTS: &[&str] = &["api", "chart", "form", "part", "routes.ts", "viewer"];

/// Words, the only places that may have them, and why.
const ONLY_THERE: [(&[&str], &[&str], &str); 6] = [
    (&["fetch(", "XMLHttpRequest", "EventSource"], &["api/"], "only api/ speaks to the service"),
    (&["\"molstar", "'molstar"], &["viewer/stage.ts"], "only viewer/stage.ts knows Mol*"),
    (&["\"uplot", "'uplot"], &["chart/"], "only chart/ knows uPlot"),
    (
        &[
            "href=\"/",
            "href={`/",
            "history.",
            "location.href",
            "location.assign",
            "location.replace",
        ],
        &["routes.ts"],
        "only routes.ts knows addresses",
    ),
    (
        &["useMutation("],
        &["part/mutation.ts"],
        "what is done by a click is begun once, by useOnce of part/mutation.ts",
    ),
    (
        &[": any", "as any", "<any", "any[]", "dangerouslySetInnerHTML", "@ts-ignore"],
        &[],
        "the compiler checks types, and React escapes texts",
    ),
];

/// Adds what the portal's sources break.
pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let sources = root().join(SOURCES);
    for extension in ["ts", "tsx"] {
        each_file(&sources, extension, &mut |path, text| {
            let path = path.strip_prefix(&sources).expect("it lies there").to_string_lossy();
            // Generated; the document may say any word.
            if path == "api/molbox.d.ts" || path == "api/fields.ts" {
                return;
            }
            problems.extend(of_file(&path, text).map(|problem| format!("{SOURCES}/{problem}")));
        })?;
    }
    Ok(())
}

/// What one file breaks.
fn of_file<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let words = text.lines().enumerate().flat_map(move |(number, line)| {
        let is_comment = line.trim_start().starts_with("//") || line.trim_start().starts_with('*');
        ONLY_THERE
            .iter()
            .filter(move |(_, places, _)| !places.iter().any(|place| path.starts_with(place)))
            .filter_map(move |(words, _, rule)| {
                let word = words.iter().find(|word| !is_comment && has_word(line, word))?;
                Some(format!("{path}:{}: {word}: {rule}", number + 1))
            })
    });
    words.chain(imports(text).filter_map(move |import| {
        let import = target(path, import)?;
        (!may_import(path, &import)).then(|| format!("{path} imports {import}, which it may not"))
    }))
}

/// Whether a line has a word, and not only as the end of a longer one: `refetch(` is no `fetch(`.
fn has_word(line: &str, word: &str) -> bool {
    let is_inside =
        |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
    let begins_inside = word.starts_with(|c: char| c.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| !begins_inside || !is_inside(&line[..at]))
}

/// What a file names after `from`, or imports in parentheses or for its effect.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    ["from \"", "import(\"", "import \""].into_iter().flat_map(move |start| {
        text.match_indices(start).filter_map(move |(at, _)| {
            let (import, _) = text[at + start.len()..].split_once('"')?;
            Some(import)
        })
    })
}

/// The file that a file names, from the folder of all; none of a package.
fn target(path: &str, import: &str) -> Option<String> {
    let mut steps: Vec<&str> = Path::new(path).parent()?.to_str()?.split('/').collect();
    steps.retain(|step| !step.is_empty());
    if !import.starts_with('.') {
        return None;
    }
    for step in import.split('/') {
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    Some(steps.join("/"))
}

fn may_import(path: &str, import: &str) -> bool {
    let Some((folder, _)) = path.split_once('/') else {
        // Above the folders lies what puts them together; addresses depend on nothing.
        return path != "routes.ts";
    };
    let of = import.split_once('/').map_or(import, |(folder, _)| folder);
    let is_page_of_another = folder == "page" && of == "page";
    MAY_IMPORT
        .iter()
        .find(|(name, _)| *name == folder)
        .is_some_and(|(_, may)| may.contains(&of) || of == folder && !is_page_of_another)
}

#[cfg(test)]
mod tests {
    use super::of_file;

    fn problems(path: &str, text: &str) -> Vec<String> {
        of_file(path, text).collect()
    }

    #[test]
    fn imports_lead_from_pages_to_parts_to_the_service() {
        for (path, import) in [
            ("page/job.tsx", "../part/status.tsx"),
            ("page/job.tsx", "../routes.ts"),
            ("part/status.tsx", "../api/client.ts"),
            ("part/job.tsx", "../form/field.tsx"),
            ("api/events.ts", "./client.ts"),
            ("api/client.ts", "openapi-fetch"),
            ("shell.tsx", "./page/job.tsx"),
        ] {
            let text = format!("import {{ a }} from \"{import}\";\n");
            assert_eq!(problems(path, &text), [""; 0], "{path}");
        }
        for (path, import) in [
            ("page/job.tsx", "./jobs.tsx"),
            ("page/job.tsx", "../shell.tsx"),
            ("part/status.tsx", "../page/job.tsx"),
            ("api/client.ts", "../part/status.tsx"),
            ("api/client.ts", "../routes.ts"),
            ("routes.ts", "./api/client.ts"),
            ("other/a.ts", "../api/client.ts"),
        ] {
            let text = format!("const a = lazy(() => import(\"{import}\"));\n");
            assert_eq!(problems(path, &text).len(), 1, "{path}");
        }
    }

    #[test]
    fn words_stand_where_they_belong() {
        assert_eq!(
            problems("page/a.tsx", "await fetch(url);")[0],
            "page/a.tsx:1: fetch(: only api/ speaks to the service"
        );
        assert_eq!(problems("chart/a.ts", "\nlet a = b as any;").len(), 1);
        assert_eq!(problems("chart/a.ts", "import { Viewer } from \"molstar/lib/a\";").len(), 1);
        for (path, line) in [
            ("api/client.ts", "await fetch(request);"),
            ("page/a.tsx", "void query.refetch();"),
            ("page/a.tsx", "// `fetch(` would hide it"),
            ("chart/a.ts", "import uPlot from \"uplot\";"),
            ("viewer/stage.ts", "import { Viewer } from \"molstar/lib/a\";"),
        ] {
            assert_eq!(problems(path, line), [""; 0], "{line}");
        }
    }
}
