//! Suggestions for misspelled names.

/// The candidate that was most likely meant, if one is similar enough.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (strsim::damerau_levenshtein(&wrong, &candidate.to_lowercase()), candidate)
        })
        // A third of the letters may differ, and always two.
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(2))
        .filter(|(distance, candidate)| *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// The end of an error about an unknown name: the nearest known name, else all known names.
pub fn suggestion<'a>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(meant) = nearest(wrong, candidates.clone()) {
        return format!("did you mean {meant}?");
    }
    let mut all: Vec<&str> = candidates.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => "none is defined".to_owned(),
        all => format!("known: {}", all.join(", ")),
    }
}

/// The allowed words of a setting, quoted.
pub fn choice(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    quoted.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_recognised_and_an_unrelated_one_is_not() {
        let names = ["cap", "session_max_active", "max_turns_ceiling"];
        for (wrong, meant) in [
            ("capp", Some("cap")),
            ("CAP", Some("cap")),
            ("session_max_activ", Some("session_max_active")),
            ("sesion_maxactive", Some("session_max_active")),
            ("max_turns", None),
            ("xyz", None),
        ] {
            assert_eq!(nearest(wrong, names), meant, "{wrong}");
        }
        assert_eq!(suggestion("xyz", names), "known: cap, max_turns_ceiling, session_max_active");
        assert_eq!(suggestion("xyz", []), "none is defined");
    }
}
