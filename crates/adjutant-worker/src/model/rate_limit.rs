use std::time::{Duration, SystemTime};

use adjutant_store::{Remaining, RemainingQuota};
use chrono::DateTime;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// A provider is called again after this time, even if it asks for a longer pause.
const LONGEST: Duration = Duration::from_secs(3600);

/// The pause that the server asks for. Dates are relative to the server's clock if it sends it.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = text(headers, "retry-after-ms").and_then(number).map(|ms| ms / 1000.0);
    let after = text(headers, RETRY_AFTER.as_str());
    let seconds =
        milliseconds.or_else(|| number(after?)).and_then(|s| Duration::try_from_secs_f64(s).ok());
    let at = || httpdate::parse_http_date(after?).ok().map(|at| from_now(headers, at));
    seconds.or_else(at).map(clamp)
}

/// The same, else the time until the last of the exhausted limits resets.
pub(super) fn until_open(headers: &HeaderMap) -> Option<Duration> {
    let exhausted = |name: &str| text(headers, name) == Some("0");
    let resets = headers.iter().filter_map(|(name, value)| {
        let (name, value) = (name.as_str(), value.to_str().ok()?);
        if let Some(limit) = name.strip_prefix("x-ratelimit-reset-") {
            return exhausted(&format!("x-ratelimit-remaining-{limit}")).then(|| span(value))?;
        }
        let limit = name
            .strip_suffix("-reset")
            .filter(|limit| limit.starts_with("anthropic-ratelimit-"))?;
        let at = DateTime::parse_from_rfc3339(value).ok()?;
        exhausted(&format!("{limit}-remaining")).then(|| from_now(headers, at.into()))
    });
    retry_after(headers).or_else(|| resets.max().map(clamp))
}

/// What a response still allows. Of the limits of tokens the one counts that leaves the least; a
/// limit of output tokens only when nothing is left, because estimates are of prompt and answer.
pub(crate) fn remaining(headers: &HeaderMap) -> Remaining {
    let quota = |left: &str, reset: &str| {
        let left = text(headers, left)?.parse().ok().filter(|left: &i64| *left >= 0)?;
        let reset = text(headers, reset)?;
        let at = || DateTime::parse_from_rfc3339(reset).ok();
        let resets_in = span(reset).or_else(|| Some(from_now(headers, at()?.into()))).map(clamp)?;
        Some(RemainingQuota { left, resets_in }).filter(|quota| !quota.resets_in.is_zero())
    };
    let of = |name: &str| {
        let openai = || {
            quota(&format!("x-ratelimit-remaining-{name}"), &format!("x-ratelimit-reset-{name}"))
        };
        let limit = format!("anthropic-ratelimit-{name}");
        quota(&format!("{limit}-remaining"), &format!("{limit}-reset")).or_else(openai)
    };
    let output = of("output-tokens").filter(|quota| quota.left == 0);
    let tokens = [of("tokens"), of("input-tokens"), output];
    Remaining {
        requests: of("requests"),
        tokens: tokens.into_iter().flatten().min_by_key(|quota| quota.left),
    }
}

fn clamp(wait: Duration) -> Duration {
    wait.min(LONGEST)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Uses the `date` header of the response, since the local clock may be wrong.
fn from_now(headers: &HeaderMap, at: SystemTime) -> Duration {
    let now = text(headers, DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    at.duration_since(now.unwrap_or_else(SystemTime::now)).unwrap_or_default()
}

/// `6m0s`, `1.5s`, `120ms`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let seconds = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" | "" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number(amount)? * seconds).ok()?)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn wait(pairs: &[(&'static str, &str)]) -> Option<u64> {
        until_open(&headers(pairs)).map(|wait| wait.as_secs())
    }

    const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date_by_the_servers_clock() {
        assert_eq!(wait(&[("retry-after", "3")]), Some(3));
        assert_eq!(
            until_open(&headers(&[("retry-after", "0.5")])),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            until_open(&headers(&[("retry-after-ms", "250")])),
            Some(Duration::from_millis(250))
        );
        assert_eq!(wait(&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(30));
        assert_eq!(wait(&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!((98..=100).contains(&wait(&[("retry-after", &soon)]).unwrap()));
    }

    #[test]
    fn a_pause_is_at_most_an_hour_and_invalid_values_are_ignored() {
        assert_eq!(wait(&[("retry-after", "86400")]), Some(3600));
        assert_eq!(wait(&[("retry-after", "1e300")]), None);
        for nonsense in ["-1", "soon", "", "NaN", "inf"] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }

    #[test]
    fn the_last_reset_of_the_exhausted_limits_counts() {
        let limits = [
            DATE,
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "1994-11-06T08:49:47Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T10:49:57+02:00"),
            ("anthropic-ratelimit-output-tokens-remaining", "12"),
            ("anthropic-ratelimit-output-tokens-reset", "1994-11-06T08:59:37Z"),
        ];
        assert_eq!(wait(&limits), Some(20));
        assert_eq!(retry_after(&headers(&limits)), None);
        assert_eq!(wait(&[&limits[..], &[("retry-after", "7")]].concat()), Some(7));
    }

    #[test]
    fn a_response_says_what_is_left_until_when_on_both_wires() {
        let quota =
            |left, seconds| Some(RemainingQuota { left, resets_in: Duration::from_secs(seconds) });
        let openai = [
            ("x-ratelimit-remaining-requests", "7"),
            ("x-ratelimit-reset-requests", "12s"),
            ("x-ratelimit-remaining-tokens", "900"),
            ("x-ratelimit-reset-tokens", "1m0s"),
        ];
        let found = remaining(&headers(&openai));
        assert_eq!((found.requests, found.tokens), (quota(7, 12), quota(900, 60)));
        let anthropic = [
            DATE,
            ("anthropic-ratelimit-requests-remaining", "3"),
            ("anthropic-ratelimit-requests-reset", "1994-11-06T08:49:47Z"),
            ("anthropic-ratelimit-tokens-remaining", "500"),
            ("anthropic-ratelimit-tokens-reset", "1994-11-06T08:50:07Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "400"),
            ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T08:49:57Z"),
            ("anthropic-ratelimit-output-tokens-remaining", "100"),
            ("anthropic-ratelimit-output-tokens-reset", "1994-11-06T08:49:57Z"),
        ];
        let found = remaining(&headers(&anthropic));
        assert_eq!((found.requests, found.tokens), (quota(3, 10), quota(400, 20)));
        for nonsense in ["-1", "many", ""] {
            let limits = [("x-ratelimit-remaining-requests", nonsense), openai[1]];
            assert_eq!(remaining(&headers(&limits)), Remaining::default(), "{nonsense}");
        }
        assert_eq!(remaining(&headers(&openai[..1])), Remaining::default(), "without a reset");
    }

    #[test]
    fn openai_sends_the_remaining_time() {
        let limits = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(wait(&limits), Some(360));
        assert_eq!(wait(&limits[..2]), Some(1));
        assert_eq!(wait(&limits[1..2]), None);
        assert_eq!(span("1h2m3.5s"), Some(Duration::from_millis(3_723_500)));
        assert_eq!(span("120ms"), Some(Duration::from_millis(120)));
        assert_eq!(span("1 fortnight"), None);
    }
}
