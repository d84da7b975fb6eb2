//! Glob patterns: `*` and `?` inside a name, `**` for any folders.

pub(super) struct Pattern {
    names: Vec<Name>,
}

enum Name {
    Any,
    Like(Vec<char>),
}

impl Pattern {
    /// A pattern without a slash matches names in any folder.
    pub(super) fn new(pattern: &str) -> Self {
        let anywhere = if pattern.contains('/') { None } else { Some(Name::Any) };
        let names = pattern.split('/').filter(|name| !name.is_empty() && *name != ".").map(
            |name| match name {
                "**" => Name::Any,
                name => Name::Like(name.chars().collect()),
            },
        );
        Self { names: anywhere.into_iter().chain(names).collect() }
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        let is_any = |name: &Name| matches!(name, Name::Any);
        glob(&self.names, &names, is_any, |name, text| match name {
            Name::Any => true,
            Name::Like(like) => {
                let text: Vec<char> = text.chars().collect();
                glob(like, &text, |c| *c == '*', |like, c| *like == '?' || like == c)
            }
        })
    }
}

/// Matches as little as possible for each star and backtracks only to the last one, so that the
/// time is at most the product of the lengths.
fn glob<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    matches_one: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last_star = None;
    while let Some(one) = text.get(t) {
        match pattern.get(p) {
            Some(star) if is_star(star) => {
                last_star = Some((p, t));
                p += 1;
            }
            Some(like) if matches_one(like, one) => {
                p += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((star, taken)) = last_star else { return false };
                last_star = Some((star, taken + 1));
                p = star + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_paths() {
        for (pattern, path, matches) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "x/y/a.rs", true),
            ("*.rs", "a.rsx", false),
            ("a?c", "x/abc", true),
            ("a?c", "ac", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/b/a.rs", false),
            ("src/*.rs", "x/src/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/b/c/a.rs", true),
            ("**/b/*", "a/b/c", true),
            ("**", "a/b", true),
            ("./src/*", "src/x", true),
            ("*", "ü", true),
            ("größe?", "größe1", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(path), matches, "{pattern} {path}");
        }
        let evil = "*a".repeat(2000) + "b";
        assert!(!Pattern::new(&evil).matches(&"a".repeat(2000)));
        assert!(!Pattern::new(&("**/a/".repeat(500) + "b")).matches(&"a/".repeat(500)));
    }
}
