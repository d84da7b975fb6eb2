use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Fields;
use crate::{Refusal, text_in};

/// The most patterns per list.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN_CHARS: usize = 128;

/// The tools that the tasks of a session may use, whatever their agents list. In a pattern, `*`
/// matches any number of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Permissions {
    /// Only tools that match one of these patterns; all tools if absent.
    pub allow: Option<Vec<String>>,
    /// No tool that matches one of these patterns, even if it is allowed.
    pub deny: Vec<String>,
}

impl Permissions {
    /// Parses permissions, and refuses unknown fields. `field` is the prefix of the names in a
    /// refusal.
    pub fn parse(field: &str, value: &Value) -> Result<Self, Refusal> {
        let mut fields =
            Fields::of(value).map_err(|_| Refusal::invalid(field, "must be an object"))?;
        let allow = fields
            .take("allow")
            .map(|value| patterns(&format!("{field}.allow"), value))
            .transpose()?;
        let deny = fields
            .take("deny")
            .map(|value| patterns(&format!("{field}.deny"), value))
            .transpose()?;
        fields.end().map_err(|refusal| {
            Refusal::new(refusal.code, format!("{field}.{}", refusal.message))
        })?;
        Ok(Self { allow, deny: deny.unwrap_or_default() })
    }

    pub fn allows(&self, tool: &str) -> bool {
        let matches = |patterns: &[String]| matches_any(patterns, tool);
        self.allow.as_deref().is_none_or(matches) && !matches(&self.deny)
    }
}

/// Whether one of the patterns matches a name.
pub(crate) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches_pattern(pattern, name))
}

fn patterns(field: &str, value: &Value) -> Result<Vec<String>, Refusal> {
    let items = value.as_array().ok_or_else(|| Refusal::invalid(field, "must be an array"))?;
    check_count(field, items.len())?;
    let pattern = |(place, item): (usize, &Value)| {
        let field = format!("{field}[{place}]");
        let text = text_in(&field, item)?;
        check_pattern(&field, text)?;
        Ok(text.to_owned())
    };
    items.iter().enumerate().map(pattern).collect()
}

/// Refuses patterns that are empty, too long or too many.
pub(crate) fn check_patterns(field: &str, patterns: &[String]) -> Result<(), Refusal> {
    check_count(field, patterns.len())?;
    let mut places = patterns.iter().enumerate();
    places.try_for_each(|(place, pattern)| check_pattern(&format!("{field}[{place}]"), pattern))
}

fn check_count(field: &str, patterns: usize) -> Result<(), Refusal> {
    if patterns <= MAX_PATTERNS {
        return Ok(());
    }
    Err(Refusal::invalid(field, format_args!("must have at most {MAX_PATTERNS} patterns")))
}

fn check_pattern(field: &str, pattern: &str) -> Result<(), Refusal> {
    if (1..=MAX_PATTERN_CHARS).contains(&pattern.chars().count()) {
        return Ok(());
    }
    Err(Refusal::invalid(field, format_args!("must have 1 to {MAX_PATTERN_CHARS} characters")))
}

/// Matches the parts between the stars one after another, each at its first occurrence, so that the
/// time is linear in the number of parts.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = name.strip_prefix(start).and_then(|left| left.strip_suffix(end)) else {
        return false;
    };
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some((_, after)) = left.split_once(part) else { return false };
        left = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn permissions(value: Value) -> Permissions {
        Permissions::parse("permissions", &value).unwrap()
    }

    #[test]
    fn what_is_allowed_and_not_denied_may_be_used() {
        let all = permissions(json!({}));
        assert!(all.allows("fetch") && all.allows("shared_context"));
        assert_eq!(permissions(json!({"allow": null, "deny": null})), all);
        let none = permissions(json!({"allow": []}));
        assert!(!none.allows("fetch"), "an empty list is a list");
        let some =
            permissions(json!({"allow": ["files__*", "fetch"], "deny": ["*write*", "files__rm"]}));
        for (tool, may) in [
            ("fetch", true),
            ("files__read", true),
            ("files__", true),
            ("files_", false),
            ("fetcher", false),
            ("files__write_file", false),
            ("files__rm", false),
            ("files__rmdir", true),
        ] {
            assert_eq!(some.allows(tool), may, "{tool}");
        }
    }

    #[test]
    fn a_star_is_any_text_and_nothing_else_is_special() {
        for (pattern, name, fit) in [
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*a*a*", "a", false),
            ("*a*a*", "xaxa", true),
            ("**x", "x", true),
            ("fetch", "fetch", true),
            ("Fetch", "fetch", false),
            ("f.tch", "fetch", false),
            ("f?tch", "fetch", false),
            ("", "x", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), fit, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_name() {
        for (value, field) in [
            (json!([]), "permissions: must be an object"),
            (json!({"allow": "fetch"}), "permissions.allow: must be an array"),
            (json!({"allow": ["fetch", 1]}), "permissions.allow[1]: must be a string"),
            (json!({"deny": [""]}), "permissions.deny[0]: must have 1 to 128 characters"),
            (
                json!({"deny": ["x".repeat(129)]}),
                "permissions.deny[0]: must have 1 to 128 characters",
            ),
            (json!({"deny": vec!["x"; 101]}), "permissions.deny: must have at most 100 patterns"),
            (json!({"deny": ["a\0"]}), "permissions.deny[0]: must not contain a NUL character"),
            (json!({"forbid": []}), "permissions.forbid: is not a field of this action"),
        ] {
            assert_eq!(
                Permissions::parse("permissions", &value).unwrap_err().message,
                field,
                "{value}"
            );
        }
        permissions(json!({"allow": vec!["x"; 100], "deny": ["x".repeat(128)]}));
    }

    /// As a star is defined, without a thought for the time it takes.
    fn fits_plainly(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => {
                (0..=name.len()).any(|skipped| fits_plainly(rest, &name[skipped..]))
            }
            [first, rest @ ..] => name.first() == Some(first) && fits_plainly(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn a_pattern_fits_what_its_definition_says(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches_pattern(&pattern, &name), fits_plainly(&chars(&pattern), &chars(&name)));
        }
    }
}
