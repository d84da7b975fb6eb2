//! The artifacts of a child: the items of the list at the end of its answer. An artifact is a name
//! (a file, a URL, a citation), and it is stored as long as the answer.

const HEADING: &str = "Artifacts:";

pub(super) const HOW_TO_LIST: &str = "End your answer with the line \"Artifacts:\" and below it, one line each beginning with \"- \", what you have delivered.";

pub(super) fn list(labels: &[String]) -> String {
    labels.iter().map(|label| format!("- {label}")).collect::<Vec<_>>().join("\n")
}

/// Splits an answer into its text and the items of its final list, without duplicates. An answer
/// that is only a list is not split.
pub(super) fn split(answer: &str) -> (&str, Vec<String>) {
    let Some((said, list)) = heading(answer).and_then(|(said, rest)| Some((said, items(rest)?)))
    else {
        return (answer, Vec::new());
    };
    (if said.trim().is_empty() { answer } else { said.trim_end() }, list)
}

/// The text before and after the last line that is the heading, however it is marked up.
fn heading(answer: &str) -> Option<(&str, &str)> {
    let mut ends = 0;
    let mut found = None;
    for line in answer.split_inclusive('\n') {
        let start = ends;
        ends += line.len();
        let words = line.trim().trim_start_matches('#').trim().replace("**", "");
        if words.eq_ignore_ascii_case(HEADING) {
            found = Some((&answer[..start], &answer[ends..]));
        }
    }
    found
}

/// `None` unless every line is an item.
fn items(rest: &str) -> Option<Vec<String>> {
    let mut items: Vec<String> = Vec::new();
    for line in rest.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
        let item = item.trim().trim_matches('`').trim();
        if !item.is_empty()
            && !item.eq_ignore_ascii_case("none")
            && !items.iter().any(|known| known == item)
        {
            items.push(item.to_owned());
        }
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_4_9_artifacts_are_the_list_that_an_answer_ends_with() {
        for (answer, said, artifacts) in [
            ("Done.", "Done.", vec![]),
            (
                "Done.\n\nArtifacts:\n- report.md\n- notes.txt\n",
                "Done.",
                vec!["report.md", "notes.txt"],
            ),
            ("Done.\n**Artifacts:**\n* `a`\n\n* a\n* none\n", "Done.", vec!["a"]),
            ("Done.\n## artifacts:\n- one, with words", "Done.", vec!["one, with words"]),
            (
                "Artifacts:\n- old\n\nMore.\nArtifacts:\n- new",
                "Artifacts:\n- old\n\nMore.",
                vec!["new"],
            ),
            ("Artifacts:\n- a\nAnd so on.", "Artifacts:\n- a\nAnd so on.", vec![]),
            ("Artifacts: see above", "Artifacts: see above", vec![]),
            ("Done.\nArtifacts:\n", "Done.", vec![]),
            ("Artifacts:\n- only", "Artifacts:\n- only", vec!["only"]),
        ] {
            assert_eq!(
                split(answer),
                (said, artifacts.into_iter().map(str::to_owned).collect()),
                "{answer:?}"
            );
        }
    }
}
