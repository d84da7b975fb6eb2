/// The candidate that was most likely meant, if any is near enough to be worth naming.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wrong, &candidate.to_lowercase()), candidate))
        // A third of it may be wrong, and two letters always.
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(2))
        .filter(|(distance, candidate)| *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// What to say after an unknown name: the nearest one, else all there are.
pub fn suggestion<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(meant) = nearest(wrong, candidates.clone()) {
        return format!("did you mean {meant}?");
    }
    let mut all: Vec<&str> = candidates.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => "there is none".to_owned(),
        all => format!("there is {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
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
        assert_eq!(suggestion("xyz", names), "there is cap, max_turns_ceiling, session_max_active");
        assert_eq!(suggestion("xyz", []), "there is none");
    }
}
